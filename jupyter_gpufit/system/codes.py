"""Code objects, and those inside them."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType


def codes_inside(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from codes_inside(constant)
