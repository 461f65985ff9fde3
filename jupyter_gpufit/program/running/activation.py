"""One activation of a cell, function or generator, and the program as an activation sees it.

This is what frames, functions and a library's own resume have in common. The program itself knows all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Protocol

from ..libraries.gain import LeftShare
from ..libraries.library import Library
from ..values import FrameRecord, GeneratorRecord, Path, Unit

_NO_PATH: Path = frozenset()


class Callees(Protocol):
    """What finds the code with which a callee can be left, and enters it: it notes at the activation what it does."""

    def variant(self, callee: Any, frame: Activation, k: int) -> Any: ...

    def getter(self, owner: Any, name: str, frame: Activation, k: int) -> Any: ...

    def enter(self, callee: Any, frame: Activation, k: int) -> Any: ...


class Runner(Protocol):
    """What an activation, and what it calls, asks of the program that runs it."""

    pending: bool
    at_loops_end: Callable[[FrameType], None] | None
    scratch: str | None
    on_note: Callable[[str], None]
    library: Library

    @property
    def namespace(self) -> dict[str, Any]: ...

    @property
    def functions(self) -> Callees: ...

    @property
    def ran(self) -> Any: ...

    def unit_of(self, code: CodeType) -> Unit | None: ...

    def can_be_left(self) -> bool: ...

    def stop(self, standing: FrameType | None = None) -> None: ...

    def arrived(self) -> None: ...


class Activation:
    """`r`: on the way to a place, whose path is `p`. `pc`: the place where it stands, if it stands at one."""

    __slots__ = (
        "L",
        "__weakref__",
        "callee",
        "cells",
        "cms",
        "its",
        "p",
        "pc",
        "program",
        "r",
        "rest",
        "rpc",
        "since",
        "unit",
        "v",
        "wholes",
    )

    def __init__(self, program: Runner, unit: Unit) -> None:
        self.program, self.unit = program, unit
        self.r, self.p = False, _NO_PATH
        self.pc: int | None = None
        self.its: dict[int, Any] = {}
        self.wholes: dict[int, int | None] = {}  # items of a loop's ranges when it began, where they forget it
        self.cms: dict[int, Any] = {}
        self.callee: Any = None
        self.cells: Any = None  # a lambda that uses them, or they themselves by name
        self.v: Any = None
        self.L: dict[str, Any] | None = None
        self.rpc: int | None = None
        self.rest: list[FrameRecord] | None = None
        self.since: tuple[LeftShare, float] | None = None  # what was called last, of a library, and when

    def __reduce__(self) -> Any:
        return type(None), ()  # it stands among the variables of a text; its record has what goes on

    def load(self, record: FrameRecord, rest: list[FrameRecord]) -> None:
        """Go to the place of a record; the activations inside it are entered from the `rest`."""
        self.r, self.p = True, self.unit.paths[record.pc]
        self.rpc = self.pc = record.pc
        self.L, self.its, self.cms = record.locals, record.its, record.cms
        self.wholes = record.wholes or {}
        self.callee, self.rest, self.cells = record.callee, rest, record.cells

    def load_generator(self, record: GeneratorRecord | FrameRecord, rest: list[FrameRecord] | None) -> None:
        """Go to the yield it was suspended at, or to where it was left; one that has not begun begins."""
        self.L, self.its, self.cms = record.locals, record.its, record.cms
        self.wholes = record.wholes or {}
        self.cells, self.rest = record.cells, rest
        if record.pc is not None:
            self.r, self.p = True, self.unit.paths[record.pc]
            self.rpc = self.pc = record.pc

    def saved(self) -> dict[str, Any]:
        """The locals, once: what the activation then does with them is its own."""
        found, self.L = self.L, None
        assert found is not None
        return found

    def resumed(self) -> None:
        """It has come to its place."""
        self.r = False
        self.program.arrived()
