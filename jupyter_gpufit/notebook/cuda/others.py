"""Other libraries of a kernel (jax, TensorFlow, CuPy) and the programs that its cells start see no GPU.

Each would make a context on one, outside of every claim.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

_STARTS = ("system", "getoutput")  # of `!python train.py` and `lines = !python train.py`
_SHELLS = ("%%bash", "%%sh", "%%script")
VARIABLE = "CUDA_VISIBLE_DEVICES"
_PROGRAM = re.compile(r"\b(python[\d.]*|torchrun|accelerate|deepspeed)\s")
_starting: Callable[[str], None] | None = None  # told what a cell starts by os.system or subprocess, while it is there
_listens = False
HOW = "Programs that a cell starts see no GPU. To run one where it fits: !gpufit run -- {command}"


@contextmanager
def no_gpus_for_others(shell: InteractiveShell, say: Callable[[str], None]) -> Iterator[None]:
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = ""
    ran = {name: getattr(shell, name) for name in _STARTS}
    said = False

    def tell(command: str) -> None:
        nonlocal said
        if not said and _PROGRAM.search(command) and "gpufit" not in command and _concerns_gpus(command):
            said = True
            say(HOW.format(command=command.strip()))

    def starts(name: str, command: str, *args: Any, **more: Any) -> Any:
        command = shell.var_expand(command, depth=1 + more.pop("depth", 0))  # here, one frame below the cell's
        tell(command)
        with _expanded(shell):
            return ran[name](command, *args, **more)

    def begins(info: Any) -> None:
        if str(info.raw_cell).lstrip().startswith(_SHELLS):
            for command in info.raw_cell.splitlines()[1:]:
                tell(command)

    def started(command: str) -> None:
        if _of_cell(shell):
            tell(command)

    global _starting
    _listen()
    _starting = started
    for name in _STARTS:
        setattr(shell, name, partial(starts, name))
    shell.events.register("pre_run_cell", begins)
    try:
        yield
    finally:
        _starting = None
        shell.events.unregister("pre_run_cell", begins)
        for name, own in ran.items():
            setattr(shell, name, own)
        if os.environ.get(VARIABLE) == "":
            del os.environ[VARIABLE]
            if before is not None:
                os.environ[VARIABLE] = before


@contextmanager
def _expanded(shell: InteractiveShell) -> Iterator[None]:
    """While a command runs that has the values of the cell's variables in it: they stay as they are."""
    shell.var_expand = lambda cmd, *args, **more: cmd  # type: ignore[method-assign]
    try:
        yield
    finally:
        del shell.var_expand


def _listen() -> None:
    """Hear what this process starts. What Python has for that stays for good, and costs every event a comparison."""
    global _listens
    if not _listens:
        sys.addaudithook(_hear)
        _listens = True


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if (event == "subprocess.Popen" or event == "os.system") and (told := _starting) is not None:
        command = arguments[0] if event == "os.system" else arguments[1]
        with suppress(Exception):  # of what is no text at all, which is for the cell's own call to say
            told(_text(command))


def _text(command: Any) -> str:
    if isinstance(command, (str, bytes, os.PathLike)):
        return os.fsdecode(command)
    words = [os.fsdecode(word) for word in command]
    return words[-1] if words[:-1] == ["/bin/sh", "-c"] else shlex.join(words)  # as subprocess gives what is shell=True


def _of_cell(shell: InteractiveShell) -> bool:
    """Whether a cell's own line starts it, or a function of one, and not some library."""
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__") in (__name__, subprocess.__name__) and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_globals is shell.user_ns


def _concerns_gpus(command: str) -> bool:
    """Not `python -m pip`, `python --version` or `python -c`."""
    return not re.search(r"\bpython[\d.]*\s+(-m\s+(pip|venv|ensurepip)\b|-V\b|--version\b|-c\b)", command)
