"""What compiled code says of the notebook that it belongs to."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType
from typing import Any

import cloudpickle

_GLOBALS = frozenset({"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME"})


def reduce_code(code: CodeType) -> Any:
    """As cloudpickle has it, but with the file's name, by which a text is found: 3.1.3 leaves it out."""
    made, args = cloudpickle.Pickler.dispatch_table[CodeType](code)
    place = next(number for number, one in enumerate(args) if type(one) is str)  # the first of its names
    return made, (*args[:place], code.co_filename, *args[place + 1 :])


def names_used(code: CodeType) -> Iterator[str]:
    """The globals that a function or anything defined in it uses; `co_names` would add every attribute's name."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in _GLOBALS or instruction.opname == "LOAD_FROM_DICT_OR_GLOBALS":
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_used(constant)
