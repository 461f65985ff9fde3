"""What the reply of a restored training needs of the arrival in the process before.

The reply tells the difference to what came. So the objects that came are found again by their numbers, those that have
changed already are known as changed, and the others are looked at anew. Of an object that nothing leads to any more,
and that had not changed, only its place among the numbers is kept; the bytes of all are in the memory they came in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..graph import Arrival, GraphMemory
from ..graph.kind import Kind, kind_of, no_state, unchanged
from ..graph.opening import Opener, Whole
from ..graph.spans import MEMORY
from ..graph.stream import Namespace
from ..graph.travel.arrival import OpenedGraph
from ..graph.wire import split
from .libraries.figures import made_anew


@dataclass
class NeededAgain:
    """In the graph of a snapshot."""

    graph: bytes  # of the shipment
    count: int  # of the objects that came: the numbers of new ones begin there
    objects: list[tuple[int, Any]]  # those that are still there, by number
    changed: set[int]  # the numbers of those that differ from what came
    same: list[str]  # variables that are what they were
    names: tuple[str, ...] | None = None  # of the shipment that could be opened; all of them in an older checkpoint


def changed_by_now(arrival: Arrival) -> list[Any]:
    inner = made_anew(obj for obj, _, _ in arrival.marks)
    return [obj for obj, kind, then in arrival.marks if id(obj) not in inner and not unchanged(then, kind.picture(obj))]


def needed_of(arrival: Arrival, changed: list[Any], written: Mapping[int, Any]) -> NeededAgain:
    """`written`: the ids of what the snapshot holds."""
    ids = set(map(id, changed))
    numbered = enumerate(arrival.opened.objects)
    there = [(number, obj) for number, obj in numbered if number > 1 and id(obj) in written]
    now = arrival.namespace
    same = [name for name, value in arrival.bindings.items() if name in now and now[name] is value]
    opened, differ = arrival.opened, {number for number, obj in there if id(obj) in ids}
    return NeededAgain(arrival.graph, len(opened.objects), there, differ, same, tuple(opened.header["names"]))


def arrival_again(
    needed: NeededAgain, namespace: Namespace, before: Namespace, memory: GraphMemory, whole: Whole, began: float
) -> Arrival:
    """`before`: what the namespace held before the snapshot was opened."""
    header, _ = split(needed.graph)
    if needed.names is not None:
        header = {**header, "names": needed.names}
    opener = Opener()
    # The reply only continues its numbers; what stood on its bytes has been made from the snapshot.
    opener.extend([(MEMORY, 0, 0)] * len(header["table"]), [], whole)
    found = dict(needed.objects)
    later = (found[number] if number in found else object() for number in range(2, needed.count))
    objects = [namespace, opener, *later]
    kinds: dict[type, Kind] = {}
    marks = list(_marks(found, needed.changed, kinds))
    bindings = before | {name: namespace[name] for name in needed.same if name in namespace}
    return Arrival(
        needed.graph, memory, namespace, OpenedGraph(header, objects, opener), whole, marks, bindings, kinds, began
    )


def _marks(found: Mapping[int, Any], changed: set[int], kinds: dict[type, Kind]) -> Any:
    for number, obj in found.items():
        kind = kind_of(type(obj), kinds)
        if kind.state is not no_state:
            mark = object() if number in changed else kind.picture(obj)  # one that nothing is equal to
            if mark is not None:
                yield obj, kind, mark
