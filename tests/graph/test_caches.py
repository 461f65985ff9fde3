"""Functions under lru_cache go along with what they keep."""

from __future__ import annotations

import pytest

from jupyter_gpufit.graph import receive, ship
from jupyter_gpufit.graph.kinds import caches

from .crossing import cross_here, notebook

CELL = """
import functools, socket
computed = []
class Net: pass
@functools.cache
def net(): computed.append("net"); return Net()
@functools.lru_cache(maxsize=2, typed=True)
def of(n, *more, by=1): computed.append(n); return [n, by]
class Grid:
    @functools.lru_cache
    def at(self, n): computed.append(self); return n
made, grid, recent = net(), Grid(), [of(1), of(2, 3, by=4), of(5.0, by=None)][1:]
grid.at(4)
"""


def test_what_they_keep_goes_along_and_is_the_very_object_that_others_hold() -> None:
    names = notebook(CELL)
    before = list(names["computed"])

    cross_here(
        names,
        "pair = [of(2, 3, by=4), of(5.0, by=None)]\n"
        "same = net() is made, pair == recent, of(5.0, by=None) is recent[1], grid.at(4)\n"
        "known, size = list(computed), of.cache_info().currsize\n"
        "of(5, by=None); of(1)\n"
        "later = computed[len(known):]\n",
    )

    assert names["same"] == (True, True, True, 4) and names["known"] == before and names["size"] == 2
    assert names["later"] == [5, 1]  # another type, and the oldest, which had gone


def test_what_cannot_travel_stays_with_a_word_and_the_function_goes() -> None:
    names = notebook(CELL + "\n@functools.cache\ndef link(): return socket.socket()\nheld = [link().close()]")

    shipment = ship(["link", "of"], names)

    assert shipment.remarks == ("What link() keeps by its lru_cache stays here: the cell computes it again.",)


@pytest.mark.parametrize(("cell", "grown"), [("of(5.0, by=None)", []), ("of(7)", ["of"]), ("net()", [])])
def test_what_came_to_be_kept_is_known(cell: str, grown: list[str]) -> None:
    names = notebook(CELL)
    there: dict[str, object] = {}
    shipment = ship(["net", "of"], names)
    arrival = receive(shipment.graph, shipment.memory, there)

    exec(cell, there)

    assert caches.grown(arrival.opened.objects) == grown
