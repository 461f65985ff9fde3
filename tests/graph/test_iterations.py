"""itertools' objects go on where they are, wherever they stand, and give the same items for good."""

from __future__ import annotations

import itertools
import operator
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pytest

from jupyter_gpufit.graph import receive, ship

from .crossing import cross_here, notebook

_FAR = 14  # items of the endless ones that are compared


class Given:
    """An iterator that leaves no place to hide: by its list, which travels."""

    def __init__(self, *items: Any) -> None:
        self.items = list(items)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if not self.items:
            raise StopIteration
        return self.items.pop(0)


def _small(one: Any) -> bool:
    return bool(one < 3)


def _no_sum(one: Any, other: Any) -> None:
    return None


MADE: dict[str, Callable[[], Any]] = {
    "count": lambda: itertools.count(3),
    "count by 2": lambda: itertools.count(-3, 2),
    "count of floats": lambda: itertools.count(0.5, 0.25),
    "count of fractions": lambda: itertools.count(Fraction(1, 3)),
    "count beyond a word": lambda: itertools.count(sys.maxsize - 2),
    "repeat": lambda: itertools.repeat("a"),
    "repeat 3": lambda: itertools.repeat("a", 3),
    "chain": lambda: itertools.chain([1, 2], (), "ab", Given(7, 8)),
    "chain of one": lambda: itertools.chain.from_iterable(Given([1], [2, 3])),
    "cycle": lambda: itertools.cycle([1, 2, 3]),
    "cycle of an iterator": lambda: itertools.cycle(Given(1, 2, 3, 4)),
    "cycle of nothing": lambda: itertools.cycle([]),
    "islice": lambda: itertools.islice(itertools.count(), 2, 13, 3),
    "islice without end": lambda: itertools.islice(itertools.count(), 4, None, 2),
    "islice that consumes": lambda: itertools.islice(Given(*range(9)), 5),
    "pairwise": lambda: itertools.pairwise([1, 2, 3, 4]),
    "takewhile": lambda: itertools.takewhile(_small, [1, 2, 3, 1]),
    "dropwhile": lambda: itertools.dropwhile(_small, [1, 2, 3, 1, 2]),
    "filterfalse": lambda: itertools.filterfalse(_small, [1, 4, 2, 5]),
    "filterfalse of None": lambda: itertools.filterfalse(None, [0, 1, 0]),
    "starmap": lambda: itertools.starmap(operator.add, [(1, 2), (3, 4)]),
    "compress": lambda: itertools.compress("abcdef", [1, 0, 1, 0, 1, 1]),
    "accumulate": lambda: itertools.accumulate([1, 2, 3, 4]),
    "accumulate from": lambda: itertools.accumulate([1, 2, 3], operator.mul, initial=10),
    "accumulate of None": lambda: itertools.accumulate([1, 2, 3], _no_sum),
    "zip_longest": lambda: itertools.zip_longest([1, 2, 3], "a", Given(), fillvalue="-"),
    "product": lambda: itertools.product("ab", [1, 2]),
    "permutations": lambda: itertools.permutations([1, 2, 3], 2),
    "combinations": lambda: itertools.combinations("abcd", 2),
    "combinations again": lambda: itertools.combinations_with_replacement("abc", 2),
    "groupby": lambda: map(operator.itemgetter(0), itertools.groupby([1, 1, 2, 3, 3])),
    "tee": lambda: itertools.tee([1, 2, 3])[1],
    "enumerate": lambda: enumerate("abc", 5),
    "zip": lambda: zip("abc", itertools.count(), strict=False),
    "map": lambda: map(operator.add, [1, 2, 3], itertools.repeat(10)),
    "reversed": lambda: reversed([1, 2, 3]),
}
if sys.version_info >= (3, 12):
    MADE["batched"] = lambda: itertools.batched("abcdefg", 3)
if sys.version_info >= (3, 13):
    MADE["batched strictly"] = lambda: itertools.batched("abcdef", 3, strict=True)
_NOT_READ = ("product", "permutations", "combinations", "combinations again", "groupby", "tee")


@pytest.mark.slow(2)
@pytest.mark.parametrize("name", list(MADE))
@pytest.mark.filterwarnings("error")
def test_goes_on_where_it_is(name: str) -> None:
    if sys.version_info >= (3, 14) and name in _NOT_READ:
        pytest.skip("Python no longer tells where it is")
    for at in range(9):
        here = MADE[name]()
        for _ in itertools.islice(here, at):
            pass
        there: dict[str, Any] = {}
        shipment = ship(["one", "other"], {"one": here, "other": [here]})
        receive(shipment.graph, shipment.memory, there)

        found = list(itertools.islice(there["one"], _FAR))

        assert found == list(itertools.islice(here, _FAR)), at
        assert there["other"][0] is there["one"]
        assert type(there["one"]) is type(here) or name == "reversed"  # which is a list's iterator once it has ended


def test_twice_over() -> None:
    """What was made is read as well as what it was made from."""
    here = itertools.islice(itertools.cycle(itertools.chain([1], itertools.accumulate([2, 3]))), 1, None, 2)
    for _ in range(4):
        next(here)
        there: dict[str, Any] = {}
        shipment = ship(["it"], {"it": here})
        receive(shipment.graph, shipment.memory, there)
        here = there["it"]

    assert list(itertools.islice(here, 6)) == [5, 2, 1, 5, 2, 1][2:] + [5, 2]


_IN_WHAT_CANNOT_BE_FILLED = {
    "a tuple": ("(it, 3)", "held[0]"),
    "a tuple in an object": ("Box(pair=('x', (it, 3)))", "held.pair[1][0]"),
    "a named tuple": ("Pair(it, 3)", "held.left"),
    "a frozen set": ("{'s': frozenset([it])}", "next(iter(held['s']))"),
    "a call": ("[it.__next__]", "held[0].__self__"),
    "a partial": ("partial(next, it)", "held.args[0]"),
    "a tuple of a list": ("([it], 2)", "held[0][0]"),
}


@pytest.mark.parametrize("where", _IN_WHAT_CANNOT_BE_FILLED)
def test_inside_of_what_cannot_be_filled_it_comes_back_where_it_went_to(where: str) -> None:
    make, inside = _IN_WHAT_CANNOT_BE_FILLED[where]
    names = notebook(
        "from types import SimpleNamespace as Box\nfrom functools import partial\nfrom collections import namedtuple\n"
        f"Pair = namedtuple('Pair', 'left right')\nit = enumerate('abc')\nnext(it); held = {make}; kept = [held]"
    )

    cross_here(names, f"assert next({inside}) == (1, 'b')")

    assert eval(inside, names) is names["it"] and next(names["it"]) == (2, "c") and names["kept"][0] is names["held"]
