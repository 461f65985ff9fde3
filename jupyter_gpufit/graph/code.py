"""What compiled code says of the notebook that it belongs to."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType

_GLOBALS = frozenset({"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME"})


def names_used(code: CodeType) -> Iterator[str]:
    """The globals that a function or anything defined in it uses; `co_names` would add every attribute's name."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in _GLOBALS or instruction.opname == "LOAD_FROM_DICT_OR_GLOBALS":
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_used(constant)
