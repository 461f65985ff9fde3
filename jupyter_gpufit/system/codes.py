"""Code objects, those inside them, and a name for the text that they are of."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from types import CodeType
from typing import TypeAlias

RunText: TypeAlias = tuple[str, str]  # its file's name in the code, and the text


def codes_inside(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from codes_inside(constant)


def name_of(filename: str, text: str) -> str:
    """Of this very text: what runs may have no file, and a file another text by now."""
    return f"{filename}#{hashlib.sha256(text.encode()).hexdigest()[:16]}"
