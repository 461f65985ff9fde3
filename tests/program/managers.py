"""A library with a context manager and generators, as far as the tests are concerned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def section(name: str, log: list[str], *, suffix: str = "!") -> Iterator[str]:
    log.append(f"begin {name}")
    try:
        yield name + suffix
    finally:
        log.append(f"end {name}")


def numbered(*things: str, start: int = 0, **also: str) -> Iterator[tuple[int, str]]:
    number = start
    for thing in (*things, *also.values()):
        yield number, thing
        number += 1


class Loader:
    __size = 2

    def batches(self, things: list[str]) -> Iterator[list[str]]:
        yield from self.__cut(iter(things))

    def __cut(self, things: Iterator[str]) -> Iterator[list[str]]:
        while batch := [thing for thing, _ in zip(things, range(self.__size), strict=False)]:
            yield batch
