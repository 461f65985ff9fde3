"""What Python and the system hold for the process: sys.argv, the depth of recursion, where modules are looked for, the
environment, the directory.

So do the rights that files are made with, the language, and the future imports of earlier cells. Out with
a cell go all but the last three, which a worker is given. Back comes what the cell changed.
"""

from __future__ import annotations
import __future__

import functools
import locale
import operator
import os
import sys
import time
from typing import Any

from ..system.identity import kernel_text

# The process's own: what it was given, and what it is for.
_OWN = ("CUDA_", "PYTHONHASHSEED", "GPUFIT_", "CUBLAS_", "GLIBC_", "TORCHINDUCTOR_", "WANDB_", "PYTHONPATH", "KMP_")
_ALL_FUTURES = functools.reduce(
    operator.or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
)
Process = dict[str, Any]


def outward() -> Process:
    found = {"argv": list(sys.argv), "recursion": sys.getrecursionlimit(), "futures": _futures()}
    return found | {"umask": umask(), "language": locale.setlocale(locale.LC_ALL)}


def _futures() -> int:
    """The `from __future__` imports of the cells so far, which hold for the next ones, as the compiler's flags."""
    shell = _shell()
    return 0 if shell is None else shell.compile.flags & _ALL_FUTURES


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def now() -> Process:
    """All of it, as it is here."""
    try:
        directory = os.getcwd()
    except OSError:
        directory = ""  # deleted
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_OWN)}
    return {**outward(), "path": list(sys.path), "environment": environment, "directory": directory}


def changed(then: Process) -> Process:
    """What differs from `then`; nothing, where that is not known."""
    if not then:
        return {}
    current = now()
    apart = ("environment", "path")
    found = {name: value for name, value in current.items() if name not in apart and value != then.get(name)}
    path = (then.get("path", sys.path), current["path"])
    found |= {"path": path} if path[0] != path[1] else {}
    before, after = then.get("environment", {}), current["environment"]
    anew = {name: value for name, value in after.items() if before.get(name) != value}
    gone = [name for name in before if name not in after]
    return found | ({"environment": (anew, gone)} if anew or gone else {})


def put(found: Process) -> None:
    if "argv" in found:
        sys.argv[:] = found["argv"]
    if "recursion" in found:
        sys.setrecursionlimit(found["recursion"])
    if found.get("futures") and (shell := _shell()) is not None:
        shell.compile.flags |= found["futures"]
    if "path" in found:
        _put_path(*found["path"])
    if "environment" in found:
        anew, gone = found["environment"]
        for name in gone:
            os.environ.pop(name, None)
        os.environ.update(anew)
        if "TZ" in anew or "TZ" in gone:
            time.tzset()
    _put_rights_and_language(found)
    if "directory" in found and os.path.isdir(found["directory"]):
        os.chdir(found["directory"])


def _put_rights_and_language(found: Process) -> None:
    if found.get("umask") is not None:
        os.umask(found["umask"])
    if found.get("language", locale.setlocale(locale.LC_ALL)) != locale.setlocale(locale.LC_ALL):
        locale.setlocale(locale.LC_ALL, found["language"])


def umask() -> int | None:
    """Not by os.umask(), which would set it for a moment, while other threads make files."""
    try:
        lines = kernel_text("/proc/self/status").split("\n")
    except OSError:
        return None
    found = next((line for line in lines if line.startswith("Umask:")), "")
    return int(found.split()[1], 8) if found else None


def _put_path(then: list[str], now: list[str]) -> None:
    """What was added and taken away, in front or behind as there; the rest is this process's own."""
    sys.path[:] = [one for one in sys.path if one not in then or one in now]
    stayed = next((place for place, one in enumerate(now) if one in then), 0)
    added = [(place < stayed, one) for place, one in enumerate(now) if one not in then and one not in sys.path]
    sys.path[:0] = [one for is_first, one in added if is_first]
    sys.path += [one for is_first, one in added if not is_first]
