"""Futures of a pool that an earlier cell, or the cell itself, asked: a prefetcher keeps the last one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from jupyter_gpufit.errors import CannotTravel

from .crossing import cross_here, notebook

CELL = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(1) as pool:
    ahead, failed = pool.submit(list, "abc"), pool.submit(int, "abc")
seen = before.result()
del pool
"""


def test_those_that_are_done_travel_both_ways() -> None:
    namespace = notebook()
    with ThreadPoolExecutor(1) as pool:
        namespace["before"] = pool.submit(sum, [1, 2])

    returned = cross_here(namespace, CELL).returned

    assert not returned.left_behind
    assert namespace["seen"] == 3 and namespace["ahead"].result() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="invalid literal"):
        namespace["failed"].result()


def test_one_that_is_not_is_named() -> None:
    namespace = notebook("from concurrent.futures import Future\nbefore = Future()")

    with pytest.raises(CannotTravel, match="a pool or future of this process"):
        cross_here(namespace, "before.done()")
