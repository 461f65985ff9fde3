"""Generators in use, between what carries objects and what reads programs."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

from ..graph import midway as carried
from ..program import Program, midway
from ..program.values import Midway


def begin(program: Callable[[], Program]) -> None:
    """Let them travel to this process and from it; `program`: asked for when the first is met."""

    def taken(generator: Any) -> tuple[Any, CodeType, bool] | None:
        try:
            whole, code = midway.taken(generator, program())
            return tuple(whole), code, whole.closes
        except Exception:  # NotHere, or a text that nobody has foreseen
            return None

    carried.taken = taken
    carried.resumed = lambda whole: midway.resumed(Midway(*whole), program())


def begin_alone(namespace: Callable[[], dict[str, Any]]) -> None:
    """In a process that leaves nothing midway: a notebook's kernel, or a trial run. `namespace`: of the user."""
    made: list[Program] = []

    def program() -> Program:
        if not made:
            made.append(Program(namespace()))
        return made[0]

    carried.remade = None
    begin(program)
