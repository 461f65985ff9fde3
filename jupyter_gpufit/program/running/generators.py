"""Suspended generators: taking one down, making it again, and bringing it to where it was suspended."""

from __future__ import annotations

import gc
import inspect
from types import CellType
from typing import Any, TypeAlias

from ...errors import NotHere
from ...system.variables import values_of
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
        raise NotHere(f"{described(generator)} is suspended, and was not made to be saved there.{remedy}")
    if generator.gi_running:
        if (running := program.running(generator)) is not None:
            return running
        raise NotHere(f"{described(generator)} is computing its next value.")
    if inspect.getgeneratorstate(generator) == inspect.GEN_CREATED:
        return _not_begun(generator, unit)
    held = values_of(frame)[FRAME]
    if held.pc is None:
        raise NotHere(f"{described(generator)} is suspended inside an except or finally block or a condition.")
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


def _not_begun(generator: Generator, unit: Unit) -> GeneratorRecord:
    there = values_of(generator.gi_frame)
    if isinstance(arrived := there.get(ARRIVED), Arrived):  # made again here, and not asked for anything since
        assert isinstance(arrived.record, GeneratorRecord)
        return arrived.record
    code = generator.gi_code
    shared = (*code.co_cellvars, *code.co_freevars)
    # They stand last among what it refers to, in this order. The cells of its own variables have their values already.
    cells = [one for one in gc.get_referents(generator) if type(one) is CellType][-len(shared) :] if shared else []
    named = dict(zip(shared, cells, strict=False)) if len(cells) == len(shared) else {}
    if len(named) < len(shared):
        raise NotHere(f"{described(generator)} has not begun, and shares variables with other functions.")
    names = [name for name in unit.locals if name in there and name not in named]
    return GeneratorRecord(unit.uid, named, None, {name: there[name] for name in names}, {}, {})


def described(generator: Generator) -> str:
    frame, code = generator.gi_frame, generator.gi_code
    return f"The generator {generator.__qualname__} ({file_of(code)}, line {frame.f_lineno})"


def create(program: Program, uid: str, cells: dict[str, CellType], home: Any = None) -> Generator:
    """One that knows nothing yet; without a uid, one that has ended.

    `home`: its globals, or the module whose they are, where no import finds it.
    """
    if not uid:
        ended: Generator = (one for one in "")
        for _ in ended:
            pass
        return ended
    function = program.generator(uid, cells, home)
    made: Generator = function(Arrived())
    return made


def prime(generator: Generator, found: GeneratorRecord | FrameRecord, program: Program) -> None:
    """Bring it to the yield at which it was suspended. All that it refers to must be there."""
    arrived = values_of(generator.gi_frame)[ARRIVED]
    assert isinstance(arrived, Arrived)
    arrived.record = found
    if isinstance(found, GeneratorRecord) and found.pc is not None:
        next(generator)
