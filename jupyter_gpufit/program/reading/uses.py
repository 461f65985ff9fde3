"""How compiled code uses the names of its module: which it reads, binds and deletes, where, and in what order.

The compiler is asked rather than imitated: the bytecode says for every name whether it is the module's, a local of a
function or a class's own, so the scope rules are Python's by construction. Code that the compiler knows can never run
(`if False:`) counts for nothing, and neither does what only running tells (`exec`, `from x import *`).
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterator
from types import CodeType
from typing import NamedTuple


class NameUse(NamedTuple):
    """One instruction on a global name."""

    name: str
    line: int
    offset: int  # of the outermost code's instruction that does it, or that makes the function or class which does
    reads: bool
    writes: bool


# The compiler itself reads or binds these: for a class, a docstring, an annotation.
_EVERY_MODULE_HAS = frozenset(
    {"__name__", "__doc__", "__annotations__", "__annotate__", "__annotate_func__", "__conditional_annotations__"}
)
_LOADS = frozenset({"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"})
_STORES = frozenset({"STORE_NAME", "STORE_GLOBAL"})
_DELETES = frozenset({"DELETE_NAME", "DELETE_GLOBAL"})
_JUMPS = frozenset({*dis.hasjrel, *dis.hasjabs})
_NEVER_GOES_ON = frozenset(
    ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
    + ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE")
)


def uses(code: CodeType, *, of_class: bool = False) -> Iterator[NameUse]:
    """Every use of a global name in the code of a module, function or class body, and in the code inside it."""
    stored = ""
    for step in _class_steps(code) if of_class else dis.get_instructions(code):
        if isinstance(step.argval, CodeType):
            inside = uses(step.argval, of_class=not step.argval.co_flags & inspect.CO_OPTIMIZED)
            yield from (use._replace(offset=step.offset) for use in inside)
        elif step.opname in _LOADS | _STORES | _DELETES and step.argval not in _EVERY_MODULE_HAS:
            line = (step.positions and step.positions.lineno) or code.co_firstlineno
            # A deletion right after a binding is the compiler's own, at the end of `except ... as name`.
            reads = step.opname in _LOADS or (step.opname in _DELETES and step.argval != stored)
            yield NameUse(step.argval, line, step.offset, reads=reads, writes=step.opname not in _LOADS)
        stored = step.argval if step.opname in _STORES else ""


def _class_steps(code: CodeType) -> Iterator[dis.Instruction]:
    """The instructions of a class body, without those on names that are surely the class's own."""
    steps = list(dis.get_instructions(code))
    deleted = {step.argval for step in steps if step.opname == "DELETE_NAME"}
    own: set[str] = set()
    straight = not code.co_exceptiontable  # past a branch, a name the class binds may still be the notebook's
    for step in steps:
        straight = straight and step.opcode not in _JUMPS
        if step.opname == "STORE_NAME" and straight:
            own |= {step.argval} - deleted
        is_own = step.opname in ("STORE_NAME", "DELETE_NAME") or (step.opname == "LOAD_NAME" and step.argval in own)
        if not is_own:
            yield step


_NOTHING: frozenset[str] = frozenset()


def replaced_names(module: CodeType) -> dict[int, frozenset[str]]:
    """By the offset of each instruction: the names that every path to it has bound or deleted.

    A value once replaced never comes back, so a function made later sees none of the old ones, whenever it is called.
    """
    steps = list(dis.get_instructions(module))
    following = {step.offset: after.offset for step, after in zip(steps, steps[1:], strict=False)}
    by_offset = {step.offset: step for step in steps}
    handlers = _handlers(module)
    replaced: dict[int, frozenset[str]] = {}
    paths = [(0, _NOTHING)]
    while paths:
        offset, names = paths.pop()
        names &= replaced.get(offset, names)
        if replaced.get(offset) == names:
            continue
        replaced[offset] = names
        step = by_offset[offset]
        paths += [(target, names) for start, end, target in handlers if start <= offset < end]
        if step.opname in _STORES | _DELETES:
            names |= {step.argval}
        if step.opcode in _JUMPS:
            paths.append((step.argval, names))
        if step.opname not in _NEVER_GOES_ON and offset in following:
            paths.append((following[offset], names))
    return replaced


def _handlers(code: CodeType) -> list[tuple[int, int, int]]:
    """(start, end, target) of every guarded range; the format is in CPython's exception_handling_notes."""
    numbers, number = [], 0
    for byte in code.co_exceptiontable:
        number = number << 6 | byte & 0x3F
        if not byte & 0x40:  # the number's last byte
            numbers.append(number)
            number = 0
    starts, lengths, targets = numbers[0::4], numbers[1::4], numbers[2::4]  # in code units of two bytes
    return [(2 * s, 2 * (s + n), 2 * t) for s, n, t in zip(starts, lengths, targets, strict=True)]
