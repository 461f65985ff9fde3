"""What a traced cell says is heard by nobody: its prints, displays, figures and magics."""

from __future__ import annotations

import builtins
import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ...surroundings import magics
from .books import Books

_YES_OR_NO = re.compile(r"\by(es)?\b\W*(or\W*)?\bn(o)?\b|\?", re.IGNORECASE)
_RUN_THEIR_CODE = ("time", "timeit", "prun", "capture")
_WITH_A_VALUE = {"timeit": "nrp", "prun": "lsTD"}  # the letters of their options that have one
_ASSIGNED = re.compile(r"\s*([^\s=]+)(?:\s*=\s*|\s+)(.*\S)")  # %env NAME=value, or with a space between


def have_shell() -> None:
    """What is in a notebook from its start, `display` and what displays are shown by, where no kernel has put it."""
    with suppress(ImportError):  # no notebook, then
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config

        config = Config()
        config.HistoryManager.enabled = False
        config.IPKernelApp = Config()  # by which libraries know that displays are shown
        InteractiveShell.instance(config=config)


def silence(notes: Counter[str]) -> None:
    """Drop output at every level; the parent's shell, which this process has a copy of, must not hear either."""
    sys.stdout = sys.__stdout__ = sys.stderr = sys.__stderr__ = open(os.devnull, "w")  # type: ignore[misc]
    sys.displayhook = lambda value: None
    sys.stdin = open(os.devnull)
    builtins.input = _answering(notes)
    if "IPython.core.interactiveshell" in sys.modules:
        shell = sys.modules["IPython.core.interactiveshell"].InteractiveShell
        if shell.initialized():
            publisher = shell.instance().display_pub
            type(publisher).publish = type(publisher).clear_output = lambda *args, **kwargs: None


def _answering(notes: Counter[str]) -> Callable[..., str]:
    """Nobody can be asked now; a cell that only wants a name, a number or a yes goes on with one."""

    def answer(prompt: object = "") -> str:
        notes["value guessed for input()"] += 1
        return "y" if _YES_OR_NO.search(str(prompt)) else "1"

    return answer


class Ipython:
    """A shell whose magics do nothing, but for those that only run code or change this process, and the notebook's."""

    def __init__(self, books: Books, run: Callable[[str], None]) -> None:
        self._books, self._run = books, run

    def run_line_magic(self, name: str, line: str, *args: object, **kwargs: object) -> None:
        if name in _RUN_THEIR_CODE:
            self._run(_as_python(_without_options(line, _WITH_A_VALUE.get(name, ""))))
        elif own := magics.functions.get(("line", name)):
            own(line)
        elif name in ("env", "set_env"):
            if found := _ASSIGNED.fullmatch(line):
                os.environ[found[1]] = found[2]
        elif name == "cd":
            os.chdir(os.path.expanduser(_without_options(line).strip("\"'") or "~"))
        else:
            self._books.notes[f"%{name} left out"] += 1

    def run_cell_magic(self, name: str, line: str, cell: str) -> None:
        if name in _RUN_THEIR_CODE:
            self._run(_as_python(cell))
        elif own := magics.functions.get(("cell", name)):
            own(line, cell)
        else:
            self._books.notes[f"%%{name} left out"] += 1

    def run_cell(self, text: str, *args: object, **kwargs: object) -> None:
        self._run(_as_python(text))

    ex = run_cell

    def magic(self, line: str) -> None:
        name, _, rest = line.partition(" ")
        self.run_line_magic(name, rest)

    def system(self, command: str) -> None:
        self._books.notes["shell commands left out"] += 1

    def getoutput(self, command: str, *args: object, **kwargs: object) -> list[str]:
        self.system(command)
        return []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *args, **kwargs: None


def _as_python(text: str) -> str:
    """A part of a cell, whose own magics become calls of the shell."""
    from IPython.core.inputtransformer2 import TransformerManager

    return TransformerManager().transform_cell(text)


def _without_options(line: str, with_a_value: str = "") -> str:
    try:
        words = shlex.split(line, posix=False)
    except ValueError:
        return line
    while words and words[0].startswith("-"):
        option = words.pop(0)
        taken = [option, words.pop(0)] if words and len(option) == 2 and option[1] in with_a_value else [option]
        for word in taken:
            line = line.split(word, 1)[1]
    return line.strip()
