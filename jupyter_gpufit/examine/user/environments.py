"""What this Python, the other kernels' Pythons and JupyterLab bring; read from their files, with no server started."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_config_path, jupyter_path

from ...system.version import version
from .facts import last_line

PACKAGE, EXTENSION = "jupyter_gpufit", "jupyter-gpufit"
ASK = """
from importlib.metadata import PackageNotFoundError, version
for name in ("jupyter_gpufit", "ipykernel"):
    try: print(version(name))
    except PackageNotFoundError: print("-")
"""


@dataclass(frozen=True)
class Packages:
    """Versions; empty: not installed."""

    python: str  # the interpreter's path
    ours: str
    ipykernel: str
    jupyterlab: str


def packages() -> Packages:
    return Packages(sys.executable, version(), _version("ipykernel"), _version("jupyterlab"))


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


@dataclass(frozen=True)
class ServerExtension:
    enabled: bool | None  # None: no configuration names it
    said_in: str  # the file that decides
    elsewhere: str  # the Python of the `jupyter` that a terminal finds, where that is not this one


def server_extension() -> ServerExtension:
    enabled, said_in = None, ""
    for file in _server_configs():
        app = _json(file).get("ServerApp")
        extensions = app.get("jpserver_extensions") if isinstance(app, dict) else None
        if isinstance(extensions, dict) and (said := extensions.get(PACKAGE)) is not None:
            enabled, said_in = bool(said), str(file)
    return ServerExtension(enabled, said_in, _other_jupyter())


def _server_configs() -> Iterable[Path]:
    """As Jupyter Server reads them: what comes later wins."""
    for folder in reversed(jupyter_config_path()):
        yield from sorted(Path(folder, "jupyter_server_config.d").glob("*.json"))
        yield Path(folder, "jupyter_server_config.json")


def _json(file: Path) -> Any:
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _other_jupyter() -> str:
    program = shutil.which("jupyter-lab") or shutil.which("jupyter")
    if program is None:
        return ""
    with open(program, "rb") as file:
        first = file.readline(500).decode(errors="replace")
    python = first[2:].strip().split(" ")[0] if first.startswith("#!/") else ""
    return python if "python" in python and not _same_environment(python) else ""


def _same_environment(python: str) -> bool:
    """Two names of one interpreter; not their files, which virtual environments share."""
    return Path(python).parent.resolve() == Path(sys.executable).parent.resolve()


@dataclass(frozen=True)
class Panel:
    """The extension of JupyterLab."""

    version: str  # empty: not installed
    folder: str
    disabled_in: str  # the file that says so; empty: it is not disabled


def panel() -> Panel:
    folder = next((place for place in jupyter_path("labextensions") if Path(place, EXTENSION).is_dir()), "")
    found = _json(Path(folder, EXTENSION, "package.json")).get("version", "?") if folder else ""
    return Panel(python_version(found), folder, _disabled_in())


def python_version(text: str) -> str:
    """npm's spelling of a version as Python spells it: 0.2.0-rc.1 is 0.2.0rc1."""
    spelt = re.sub(r"-(alpha|beta|rc)\.?", lambda match: {"alpha": "a", "beta": "b", "rc": "rc"}[match[1]], text)
    return re.sub(r"-dev\.?", ".dev", spelt)


def _disabled_in() -> str:
    for folder in jupyter_config_path():
        file = Path(folder, "labconfig", "page_config.json")
        said = _json(file).get("disabledExtensions", {})
        names = [name for name, off in said.items() if off] if isinstance(said, dict) else said
        if any(name.split(":")[0] == EXTENSION for name in names):
            return str(file)
    return ""


@dataclass(frozen=True)
class Kernel:
    """A kernel that JupyterLab offers, on a Python other than ours."""

    name: str
    python: str
    ours: str  # our version there; empty: not installed
    ipykernel: str
    trouble: str = ""  # why that Python could not be asked


def kernels(wait: float) -> tuple[Kernel, ...]:
    """The IPython kernels of other environments; they must have us as well."""
    others = [(name, python) for name, python in _kernel_pythons().items() if not _same_environment(python)]
    with ThreadPoolExecutor(max_workers=8) as pool:
        return tuple(pool.map(lambda other: _ask(other[0], other[1], wait), others))


def _kernel_pythons() -> dict[str, str]:
    found: dict[str, str] = {}
    for folder in jupyter_path("kernels"):
        for file in sorted(Path(folder).glob("*/kernel.json")):
            words = _json(file).get("argv") or [""]
            python = shutil.which(str(words[0]))
            # A bare "python" is that of the server, which is this environment as far as one can tell from here.
            if "ipykernel_launcher" in words and python and "/" in str(words[0]):
                found.setdefault(file.parent.name, python)
    return found


def _ask(name: str, python: str, wait: float) -> Kernel:
    try:
        done = subprocess.run([python, "-Ic", ASK], capture_output=True, text=True, timeout=max(0.1, wait - 0.2))
    except (subprocess.TimeoutExpired, OSError) as error:
        return Kernel(name, python, "", "", str(error))
    if done.returncode:
        return Kernel(name, python, "", "", last_line(done.stderr) or "it failed")
    ours, ipykernel = (word if word != "-" else "" for word in done.stdout.split())
    return Kernel(name, python, ours, ipykernel)
