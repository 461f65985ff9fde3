"""Generators of an earlier cell, in a cell."""

from __future__ import annotations

import pytest

from jupyter_gpufit.errors import CannotTravel

from .crossing import cross_here, notebook

COUNT = "def count(first, *more, step=1, **named):\n    for one in (first, *more):\n        yield one * step, named\n"


def test_one_that_has_not_begun_goes_from_its_beginning() -> None:
    namespace = notebook(COUNT + "numbers = count(1, 2, step=3, a='b')")

    cross_here(namespace, "found = list(numbers)")

    assert namespace["found"] == [(3, {"a": "b"}), (6, {"a": "b"})]


def test_one_that_the_cell_has_gone_through_is_at_its_end() -> None:
    namespace = notebook(COUNT + "numbers = count(1, 2)")

    cross_here(namespace, "total = sum(one for one, _ in numbers)")

    assert namespace["total"] == 3 and list(namespace["numbers"]) == []


def test_one_that_the_cell_has_begun_is_named_as_staying() -> None:
    namespace = notebook(COUNT + "numbers = count(1, 2)")

    returned = cross_here(namespace, "first = next(numbers)").returned

    assert namespace["first"] == (1, {}) and [left.name for left in returned.left_behind] == ["numbers"]


def test_one_with_a_closure_an_expression_and_a_method() -> None:
    namespace = notebook(
        "def outer(n):\n    def inner():\n        yield n\n    return inner()\n"
        "class Bag:\n    def __init__(self): self.items = [4]\n    def each(self): yield from self.items\n"
        "made = outer(2); squares = (x * x for x in [1, 3]); bag = Bag(); each = bag.each()"
    )

    cross_here(namespace, "bag.items.append(5)\nfound = list(made), list(squares), list(each)")

    assert namespace["found"] == ([2], [1, 9], [4, 5])


def test_one_that_has_begun_is_refused() -> None:
    namespace = notebook(COUNT + "numbers = count(1, 2); next(numbers)")

    with pytest.raises(CannotTravel, match="a generator in use"):
        cross_here(namespace, "next(numbers)")
