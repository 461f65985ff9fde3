"""A library with a context manager, as far as the tests are concerned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def section(name: str, *, suffix: str = "!") -> Iterator[str]:
    opened.append(name)
    try:
        yield name + suffix
    finally:
        opened.remove(name)


opened: list[str] = []


def names(log: list[object]) -> int:
    return len(log)
