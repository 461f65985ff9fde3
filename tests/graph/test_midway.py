"""Generators that an earlier cell has begun, in the cell, and back in the notebook."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from typing import Any

import pytest

from jupyter_gpufit.surroundings import midway

from .crossing import cross_here


@pytest.fixture
def cell(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Runs text in a namespace as a notebook's cell, whose text is known."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    midway.begin_alone(lambda: namespace)
    names: list[str] = []

    def run(text: str) -> dict[str, Any]:
        name = f"<cell {request.node.name} {len(names)}>"
        names.append(name)
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        exec(compile(text, name, "exec"), namespace)
        return namespace

    yield run
    for name in names:
        del linecache.cache[name]


CYCLE = """
def cycle(loader, log):
    turn = 0
    while True:
        for x in loader:
            log.append(x)
            yield turn, x
        turn += 1
loader, log = [1, 2, 3], []
batches = cycle(loader, log)
first = [next(batches) for _ in range(4)]
"""


def test_goes_on_in_the_cell_and_again_in_the_notebook(cell: Any) -> None:
    namespace = cell(CYCLE)
    cross_here(namespace, "second = [next(batches) for _ in range(3)]", "batches", "log")
    assert namespace["second"] == [(1, 2), (1, 3), (2, 1)]
    assert [next(namespace["batches"]) for _ in range(3)] == [(2, 2), (2, 3), (3, 1)]
    assert namespace["log"] == [1, 2, 3, 1, 2, 3, 1, 2, 3, 1]  # the notebook's own list is what it writes
    cross_here(namespace, "third = next(batches)", "batches", "log")
    assert namespace["third"] == (3, 2) and next(namespace["batches"]) == (3, 3)
