"""What a hub's users have without doing anything: the magics in every Python kernel, the server extension, the panel.

`gpufit lab init --hub` writes the first; the other two come with the package in the hub's environment. IPython reads
/etc/ipython for the kernels of every environment, so what is written there asks first whether the package is there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ...system.files import write_whole
from ..findings import Check, Finding, bad, note, ok, one_by_one
from ..user import environments
from ..user import judge as user_judge

AUTOLOAD = Path("/etc/ipython/ipython_kernel_config.py")
BEGIN, END = "# >>> gpufit lab init --hub >>>\n", "# <<< gpufit lab init --hub <<<\n"
BLOCK = f'''{BEGIN}# Every user's Python kernels have %%gpufit, where their environment has jupyter_gpufit.
from importlib.util import find_spec as _find_spec

if _find_spec("jupyter_gpufit") is not None:
    c.InteractiveShellApp.extensions.append("jupyter_gpufit")
else:
    c.InteractiveShellApp.exec_lines.append("""
def _says_what_is_missing(line, cell=None):
    import sys
    from IPython.core.error import UsageError
    raise UsageError("This kernel's environment (" + sys.prefix + ") has no jupyter_gpufit. In a terminal: "
        + sys.executable + " -m pip install 'jupyter_gpufit[torch]'; then restart the kernel.")
get_ipython().register_magic_function(_says_what_is_missing, "line_cell", "gpufit")
""")
{END}'''
WAIT = 5.0  # seconds for other environments' Pythons


@dataclass(frozen=True)
class Autoload:
    """The file of IPython's that is for all users."""

    path: Path
    text: str  # empty: there is none

    @property
    def block(self) -> str:
        """What is ours of it."""
        begin, end = self.text.find(BEGIN), self.text.find(END)
        return self.text[begin : end + len(END)] if 0 <= begin < end else ""

    @property
    def rest(self) -> str:
        """What is the administrator's."""
        return self.text.replace(self.block, "") if self.block else self.text


def autoload(root: Path = Path("/")) -> Autoload:
    path = root / AUTOLOAD.relative_to("/")
    try:
        return Autoload(path, path.read_text())
    except FileNotFoundError:
        return Autoload(path, "")


def enable(root: Path, *, dry_run: bool) -> Iterator[str]:
    """Have every Python kernel of this machine load the magics; what else the file says stays."""
    found = autoload(root)
    if found.block == BLOCK:
        yield f"{found.path} has every Python kernel load %%gpufit."
        return
    yield f"{'would be ' if dry_run else ''}written: {found.path}, so that every Python kernel has %%gpufit"
    if not dry_run:
        found.path.parent.mkdir(parents=True, exist_ok=True)
        lines = found.rest
        _write(found.path, f"{lines}{'' if lines.endswith(chr(10)) or not lines else chr(10)}{BLOCK}")


def disable(root: Path, *, dry_run: bool) -> Iterator[str]:
    """Take out what is ours; the file goes where nothing else is in it."""
    found = autoload(root)
    if not found.block:
        return
    whole = not found.rest.strip()
    yield f"{'would be ' if dry_run else ''}removed: {'' if whole else 'our lines of '}{found.path}"
    if dry_run:
        return
    if whole:
        found.path.unlink()
    else:
        _write(found.path, found.rest)


def _write(path: Path, text: str) -> None:
    write_whole(path, text)
    path.chmod(0o644)


def check_everyone(root: Path, init: str) -> list[Finding]:
    """Has every user of this environment's Jupyter what they need?"""
    return one_by_one(
        [
            Check("What kernels load", lambda: autoload(root), lambda found: _autoload(found, init)),
            Check("This environment", lambda: _closed(Path(sys.prefix)), _readable),
            Check("The server extension", environments.server_extension, user_judge.server_extension),
            Check("The panel", environments.panel, user_judge.panel),
            Check("The kernels", lambda: environments.kernels(WAIT), user_judge.kernels),
        ]
    )


def _autoload(found: Autoload, init: str) -> Iterator[Finding]:
    if found.block == BLOCK:
        yield ok(f"{found.path} has every Python kernel load %%gpufit.")
    elif found.block:
        yield bad(f"{found.path} has lines of ours that somebody changed, or of another version.", f"{init} --hub")
    else:
        yield note("Users load the magics themselves: %load_ext jupyter_gpufit.", f"{init} --hub")


def _closed(prefix: Path) -> str:
    """The folder that keeps users from this environment, or from its Python; empty: none."""
    python = Path(os.path.realpath(prefix / "bin" / "python3"))
    for place in (prefix, python):
        for parent in (place, *place.parents):
            if parent.is_dir() and not parent.stat().st_mode & 0o001:
                return str(parent)
    return ""


def _readable(closed: str) -> Iterator[Finding]:
    if closed:
        yield bad(
            f"Users cannot enter {closed}, where {sys.prefix} or its Python lies: their servers do not start.",
            "Make the environment anew with a Python that all can read: /usr/bin/python3 -m venv /opt/gpufit",
        )
    else:
        yield ok(f"Every user can read {sys.prefix} and its Python.")
