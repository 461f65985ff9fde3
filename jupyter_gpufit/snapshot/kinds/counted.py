"""Iterators that are made again by the call that made them; see program/running/counted.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import CannotArrive
from ...graph.kind import Kind, Reduced
from ...program.running.counted import Counted, MadeOtherwise

if TYPE_CHECKING:
    from ..pickler import SnapshotPickler
    from ..restoring import Restoring


def find(cls: type) -> Kind | None:
    return Kind(reduce=reduce_counted) if cls is Counted else None


def reduce_counted(obj: Counted, pickler: SnapshotPickler) -> Reduced:
    return make_counted, (), (pickler.restoring, obj.state()), None, None, go_on


def make_counted() -> Any:
    return object.__new__(Counted)


def go_on(obj: Counted, state: tuple[Restoring, tuple[Any, ...]]) -> None:
    restoring, its = state
    restoring.last.append(lambda: _made_again(obj, its))


def _made_again(obj: Counted, state: tuple[Any, ...]) -> None:
    try:
        obj.go_on(state)
    except MadeOtherwise as error:
        raise CannotArrive("what a loop goes over", f"it cannot be made again: {error}.") from error
