"""Suspended generators: taking one down, making it again, and bringing it to where it was suspended."""

from __future__ import annotations

import ast
import dis
import gc
import inspect
from collections.abc import Iterable
from types import CellType, FunctionType
from typing import Any, TypeAlias

from ...errors import NotHere
from ..reading.scopes import Loop
from ..values import ARRIVED, FRAME, Arrived, FrameRecord, GeneratorRecord, Unit
from .program import Program
from .standing import cells_of, file_of, saved_locals

Generator: TypeAlias = Any  # types.GeneratorType, with its gi_code
_EXPRESSION = "<genexpr>"


def record(generator: Generator, program: Program) -> GeneratorRecord | FrameRecord | None:
    """None if it has ended; NotHere if it cannot be made again from what is known of it."""
    frame = generator.gi_frame
    if frame is None:
        return None
    unit = program.unit_of(generator.gi_code)
    if unit is None:
        remedy = " A function with `yield` can be saved." if generator.gi_code.co_name == _EXPRESSION else ""
        if program.library.met(generator):
            remedy = " The next one that this function makes can be saved."
        raise NotHere(f"{_described(generator)} is suspended, and was not made to be saved there.{remedy}")
    if generator.gi_running:
        if (running := program.running(generator)) is not None:
            return running
        raise NotHere(f"{_described(generator)} is computing its next value.")
    if inspect.getgeneratorstate(generator) == inspect.GEN_CREATED:
        return _not_begun(generator, unit)
    held = frame.f_locals[FRAME]
    if held.pc is None:
        raise NotHere(f"{_described(generator)} is suspended inside an except or finally block or a condition.")
    path = unit.paths[held.pc]
    return GeneratorRecord(
        uid=unit.uid,
        cells=cells_of(held.cells),
        pc=held.pc,
        locals=saved_locals(unit, frame),
        its={k: one for k, one in held.its.items() if k in path},
        cms={k: one for k, one in held.cms.items() if k in path},
        wholes={k: one for k, one in held.wholes.items() if k in path},
    )


def expression(generator: Generator) -> tuple[FunctionType, Any] | None:
    """A generator expression with one `for`: the function that makes it, and what it goes over.

    Between two items it holds nothing else, so one that is made anew over the same iterator goes on.
    """
    frame, code = generator.gi_frame, generator.gi_code
    if code.co_name != _EXPRESSION or frame is None or generator.gi_running:
        return None
    loops = sum(one.opname == "FOR_ITER" for one in dis.get_instructions(code))
    made = [one for one in gc.get_referents(generator) if type(one) is FunctionType and one.__code__ is code]
    if loops != 1 or len(made) != 1 or ".0" not in frame.f_locals:
        return None
    return made[0], frame.f_locals[".0"]


def expressed(function: FunctionType, iterator: Any) -> Generator:
    return function(iterator)


def _not_begun(generator: Generator, unit: Unit) -> GeneratorRecord:
    there = dict(generator.gi_frame.f_locals)
    if isinstance(arrived := there.get(ARRIVED), Arrived):  # made again here, and not asked for anything since
        assert isinstance(arrived.record, GeneratorRecord)
        return arrived.record
    code = generator.gi_code
    shared = (*code.co_cellvars, *code.co_freevars)
    # They stand last among what it refers to, in this order. The cells of its own variables have their values already.
    cells = [one for one in gc.get_referents(generator) if type(one) is CellType][-len(shared) :] if shared else []
    named = dict(zip(shared, cells, strict=False)) if len(cells) == len(shared) else {}
    if len(named) < len(shared):
        raise NotHere(f"{_described(generator)} has not begun, and shares variables with other functions.")
    names = [name for name in unit.locals if name in there and name not in named]
    return GeneratorRecord(unit.uid, named, None, {name: there[name] for name in names}, {}, {})


class Rewritten:
    """What those that travel are in a worker: of code that can be left midway."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def remade(self, generator: Generator) -> Generator:
        return self._program.library.remade(generator)

    def where(self, generator: Generator) -> tuple[int, dict[str, Any], list[Any]] | None:
        """The line of its yield, its variables and the iterators of its loops, outermost first; None if unknown."""
        try:
            found = record(generator, self._program)
        except NotHere:
            return None
        if not isinstance(found, GeneratorRecord) or found.pc is None or found.cms:
            return None
        unit = self._program.unit_of(generator.gi_code)
        assert unit is not None
        # Of a `while` it is the turns that are noted there.
        its = [one for _, one in sorted(found.its.items()) if type(one) is not list]
        return unit.lines[found.pc], found.locals, its

    def brought(
        self, generator: Generator, line: int, values: dict[str, Any], its: Iterable[Any], around: list[ast.stmt]
    ) -> Generator | None:
        """One that has not begun, to the yield of a line, within the loops and branches around it."""
        unit = self._program.unit_of(generator.gi_code)
        if unit is None:
            return None
        # In one line, what is yielded stands behind what is around it.
        pc = max(number for number, one in unit.lines.items() if one == line)
        left, numbers = iter(its), sorted(unit.paths[pc] - {pc})
        if len(numbers) != len(around):
            return None
        noted = zip(numbers, around, strict=True)
        loops = {k: next(left) if isinstance(one, ast.For) else [0] for k, one in noted if isinstance(one, Loop)}
        cells = _not_begun(generator, unit).cells
        made = create(self._program, unit.uid, cells)
        prime(made, GeneratorRecord(unit.uid, cells, pc, values, loops, {}), self._program)
        return made


def _described(generator: Generator) -> str:
    frame, code = generator.gi_frame, generator.gi_code
    return f"The generator {generator.__qualname__} ({file_of(code)}, line {frame.f_lineno})"


def create(program: Program, uid: str, cells: dict[str, CellType]) -> Generator:
    """One that knows nothing yet; without a uid, one that has ended."""
    if not uid:
        ended: Generator = (one for one in "")
        for _ in ended:
            pass
        return ended
    function = program.generator(uid, cells)
    made: Generator = function(Arrived())
    return made


def prime(generator: Generator, found: GeneratorRecord | FrameRecord, program: Program) -> None:
    """Bring it to the yield at which it was suspended. All that it refers to must be there."""
    arrived = generator.gi_frame.f_locals[ARRIVED]
    assert isinstance(arrived, Arrived)
    arrived.record = found
    if isinstance(found, GeneratorRecord) and found.pc is not None:
        next(generator)
