"""`make known LIBRARY=skorch VERSION=1.4.0`: proves that version, and adds it to the record of what is proven.

The version is installed into an environment of its own, in front of this one's packages. There the library's cell of
the matrix is killed at each place with a safe point and goes on; only if all ends to the bit, the functions that it
stood in are noted down, each by its digest.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import tempfile
import venv
from importlib import import_module
from pathlib import Path

from jupyter_gpufit.program.libraries.versions import RECORD, is_named

from .matrix import HEAD, Matrix
from .matrix_cells import CELLS
from .training import Trainings

Stood = list[list[str]]  # module, function, digest, and the version of what has it


def main(library: str, version: str, record: Path = RECORD) -> int:
    names = [name for name, cell in CELLS.items() if library in cell.needs]
    if not names:
        print(f"No cell of tests/snapshot/matrix_cells.py needs {library}: write one.", file=sys.stderr)  # noqa: T201
        return 1
    with tempfile.TemporaryDirectory() as directory:
        python = _environment(Path(directory), library, version)
        told = Path(directory, "told.json")
        if subprocess.run([str(python), "-m", __spec__.name, "--here", str(told), *names]).returncode:
            print(f"{library} {version} is not proven: nothing was added.", file=sys.stderr)  # noqa: T201
            return 1
        found: Stood = json.loads(told.read_text())
    added = [name for module, name, digest, its in found if add(module, name, digest, its, record)]
    print(f"{library} {version}: {len(found)} functions proven, {len(added)} of them not known before.")  # noqa: T201
    return 0


def _environment(directory: Path, library: str, version: str) -> Path:
    made = directory / "environment"
    venv.create(made, with_pip=True)
    python = made / "bin" / "python"
    [packages] = made.glob("lib/python*/site-packages")
    # Behind its own: torch and all else are there already.
    (packages / "around.pth").write_text(f"{sysconfig.get_path('purelib')}\n{Path(__file__).parents[2]}\n")
    constraints = Path(__file__).parents[2] / "constraints.txt"
    name = library.replace("_", "-")
    install = [str(python), "-m", "pip", "install", "-q", "--constraint", str(constraints), f"{name}=={version}"]
    subprocess.run(install, check=True)
    return python


def prove(told: Path, names: list[str]) -> int:
    """In that environment."""
    trainings = Trainings()
    stood: set[tuple[str, str, str]] = set()
    try:
        with tempfile.TemporaryDirectory() as directory:
            print(HEAD)  # noqa: T201
            for name in names:
                row = Matrix(trainings, Path(directory)).row(name, places=True)
                print(row, flush=True)  # noqa: T201
                if row.differences or not row.tried:
                    return 1
                stood |= row.stood_in
    finally:
        trainings.close()
    told.write_text(json.dumps([[*one, _version(one[0])] for one in sorted(stood)]))
    return 0


def _version(module: str) -> str:
    return str(import_module(module.partition(".")[0]).__version__)


def add(module: str, qualname: str, digest: str, version: str, record: Path = RECORD) -> bool:
    """Whether it was not known before."""
    found = json.loads(record.read_text())
    known = found.setdefault(module, {}).setdefault(qualname, {})
    was = known.get(digest)
    if was is None or not is_named(version, was):
        known[digest] = version if was is None else f"{was}, {version}"
    record.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n")
    return was is None


if __name__ == "__main__":
    first, second, *rest = sys.argv[1:]
    sys.exit(prove(Path(second), rest) if first == "--here" else main(first, second))
