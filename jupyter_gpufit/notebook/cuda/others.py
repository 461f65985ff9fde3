"""Other libraries of a kernel (jax, TensorFlow, CuPy) and the programs that its cells start see no GPU.

Each would make a context on one, outside of every claim.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

VARIABLE = "CUDA_VISIBLE_DEVICES"
_PROGRAM = re.compile(r"\b(python[\d.]*|torchrun|accelerate|deepspeed)\s")
HOW = "Programs that a cell starts see no GPU. To run one where it fits: !gpufit run -- {command}"


@contextmanager
def no_gpus_for_others(shell: InteractiveShell, say: Callable[[str], None]) -> Iterator[None]:
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = ""
    ran = shell.system
    said = False

    def system(command: str) -> Any:
        nonlocal said
        if not said and _PROGRAM.search(command) and "gpufit" not in command and _concerns_gpus(command):
            said = True
            say(HOW.format(command=command.strip()))
        return ran(command)  # type: ignore[no-untyped-call]

    shell.system = system  # type: ignore[method-assign]
    try:
        yield
    finally:
        shell.system = ran  # type: ignore[method-assign]
        if os.environ.get(VARIABLE) == "":
            del os.environ[VARIABLE]
            if before is not None:
                os.environ[VARIABLE] = before


def _concerns_gpus(command: str) -> bool:
    """Not `python -m pip`, `python --version` or `python -c`."""
    return not re.search(r"\bpython[\d.]*\s+(-m\s+(pip|venv|ensurepip)\b|-V\b|--version\b|-c\b)", command)
