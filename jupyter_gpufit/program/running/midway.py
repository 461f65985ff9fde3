"""Generators in use, read wherever they are and made again in a process that has the same text.

One whose code was rewritten says itself where it is. Of one that Python made of the text as it stands the interpreter
tells it: its last instruction the `yield`, its frame what the loops and `with` blocks around that hold, in their order.
"""

from __future__ import annotations

import dis
import gc
from types import CellType, CodeType, FunctionType
from typing import Any

from ...errors import NotHere
from ...system.variables import values_of
from ..rewriting.source import FUTURE_FLAGS
from ..values import GeneratorRecord, Midway, Spot, Unit
from .generators import create, described, prime, record
from .program import Program
from .standing import cells_of

_WAIT = ("YIELD_VALUE", "RESUME", "NOP")
_TAKE = ("POP_TOP", "STORE_", "RETURN_VALUE")  # what a statement does with what was sent


def taken(generator: Any, program: Program) -> tuple[Midway, CodeType]:
    """With its code as it was written; NotHere if it cannot be made again from what is known of it."""
    code = generator.gi_code
    if (unit := program.unit_of(code)) is not None:
        found = record(generator, program)
        if not isinstance(found, GeneratorRecord):
            raise NotHere(f"{described(generator)} is computing its next value.")
    elif (unit := program.unit_as_written(code, generator.gi_frame.f_globals)) is not None:
        found = _read(generator, unit)
    else:
        raise NotHere(f"the text of {described(generator)} is not known.")
    spots = unit.spots
    whole = Midway(
        unit.uid,
        code.co_flags & FUTURE_FLAGS,
        None if found.pc is None else spots[found.pc],
        found.locals,
        cells_of(found.cells),
        {spots[k]: one for k, one in found.its.items()},
        {spots[k]: one for k, one in found.cms.items()},
        found.pc is not None and any(spots[k][0] in ("With", "Try", "TryStar") for k in unit.paths[found.pc]),
    )
    return whole, program.as_written(unit)


def resumed(midway: Midway, program: Program) -> Any:
    unit = program.unit_named(midway.uid, midway.flags)
    numbers = {spot: k for k, spot in unit.spots.items()}
    pc = None if midway.place is None else numbers[midway.place]
    its = {numbers[spot]: one for spot, one in midway.its.items()}
    cms = {numbers[spot]: one for spot, one in midway.cms.items()}
    made = create(program, unit.uid, midway.cells)
    prime(made, GeneratorRecord(unit.uid, midway.cells, pc, midway.locals, its, cms), program)
    return made


def _read(generator: Any, unit: Unit) -> GeneratorRecord:
    """Of code as it was written. What is held while an expression is evaluated has no name: such a place is none."""
    frame, code = generator.gi_frame, generator.gi_code
    pc = _place(frame.f_lasti, code, unit)
    values = values_of(frame)
    shared = {*code.co_cellvars, *code.co_freevars}
    in_cells = dict.fromkeys((*code.co_varnames, *code.co_cellvars, *code.co_freevars))
    names = [name for name in in_cells if name in shared or name in values]
    held = _held(generator)
    variables, stack = held[: len(names)], held[len(names) :]
    known = len(variables) == len(names) and all(
        type(one) is CellType if name in shared else one is values[name]
        for name, one in zip(names, variables, strict=True)
    )
    its, cms, expected = _constructs(unit, pc, stack)
    if stack[expected:] == [None]:
        del stack[expected:]  # no error is being handled: where some was, the frame has that word
    if pc is None or not known or len(stack) != expected:
        raise NotHere(f"{described(generator)} is suspended in the midst of an expression, or of an error's handling.")
    there = dict(zip(names, variables, strict=True))
    cells = {name: one for name, one in there.items() if name in shared}
    own = {name: there[name] for name in unit.locals if name in there and name not in shared}
    return GeneratorRecord(unit.uid, cells, pc, own, its, cms)


def _place(last: int, code: CodeType, unit: Unit) -> int | None:
    """The number of the `yield` whose instruction was the last one, if nothing is left to evaluate around it."""
    instructions = list(dis.get_instructions(code))
    at = next((at for at, one in enumerate(instructions) if one.offset == last), None)
    if at is None or (positions := instructions[at].positions) is None:
        return None
    following = next((one.opname for one in instructions[at + 1 :] if one.opname not in _WAIT), "")
    there = positions.lineno, positions.col_offset
    found = [k for k, (what, *spot, _) in unit.spots.items() if tuple(spot) == there and what in ("Yield", "YieldFrom")]
    if not found or (unit.spots[found[0]][0] == "Yield" and not following.startswith(_TAKE)):
        return None
    return found[0]


def _held(generator: Any) -> list[Any]:
    """Its variables, and then what waits on its stack: a frame shows them to the garbage collector only."""
    referred = gc.get_referents(generator)
    code = generator.gi_code
    pairs = enumerate(zip(referred, referred[1:], strict=False))  # its function and the code: there the frame begins
    begin = next((at for at, (one, next_) in pairs if type(one) is FunctionType and next_ is code), -2)
    return referred[begin + 2 :]


def _constructs(unit: Unit, pc: int | None, stack: list[Any]) -> tuple[dict[int, Any], dict[int, Any], int]:
    """The iterators of its loops and the managers of its `with` blocks, and how much of the stack that is."""
    its: dict[int, Any] = {}
    cms: dict[int, Any] = {}
    at = 0
    for number in sorted(unit.paths[pc]) if pc is not None else ():
        what = unit.spots[number]
        held = stack[at] if at < len(stack) else None
        if _goes_over(what) and at < len(stack):
            its[number] = held
        elif what[0] == "With" and held is not None and hasattr(held, "__self__"):
            cms[number] = held.__self__
        elif what[0] == "While" and not what[3]:
            its[number] = [0]
            continue
        elif what[0] in ("With", "ExceptHandler") or _goes_over(what):
            return its, cms, -1
        else:
            continue
        at += 1
    return its, cms, at


def _goes_over(what: Spot) -> bool:
    """Whether it is a loop's body, and not its `else`; or what delegates."""
    return what[0] == "YieldFrom" or (what[0] == "For" and not what[3])
