"""What calls set in a context of Python's, and not in the process: numpy's error settings, decimal's context.

A cell that waits has a context of its own, which ends with it. What came into that is set again where the next cell
begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any

_MISSING: Any = object()
Contexts = dict[ContextVar[Any], Any]


@contextmanager
def noted(found: Contexts) -> Iterator[None]:
    """Note what is set inside."""
    before = copy_context()
    try:
        yield
    finally:
        found.update((one, value) for one, value in copy_context().items() if before.get(one, _MISSING) is not value)


def put(found: Contexts) -> None:
    """Set it here, once."""
    while found:
        one, value = found.popitem()
        one.set(value)
