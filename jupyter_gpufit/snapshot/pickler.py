"""Writes the objects of a process that goes on elsewhere: also what could not go to a worker and back."""

from __future__ import annotations

import io
import sys
import weakref
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from ..errors import NotHere
from ..graph import endings
from ..graph.kind import Kind, Reduced, TookTooLong, kind_of
from ..graph.refusals import LOCKS, REFUSED, is_held, is_of_its_own_kind
from ..graph.spans import Recorder
from ..graph.stream import GraphPickler, Namespace

_OF_TORCH = ("kinds.tensors", "kinds.loaders")
_FAMILIES = (
    "kinds.suspended",
    "kinds.counted",
    "kinds.caches",
    "kinds.run_modules",
    "kinds.opened_files",
    "libraries.reporters",
    "libraries.rich_displays",
    "libraries.trackers",
    "kinds.shared_with_threads",
    "kinds.widgets",
)
_ADVICE = "No checkpoint can hold it: make it anew where it is used, or delete it before the loop."
_LISTED = "No checkpoint can hold its place: go over a list instead, `for x in list(...)`."
_MANY = 1000  # refusals, of which the first ten are shown


class Unready(Exception):
    """An object that cannot be saved at this safe point, and can be at a later one."""

    def __init__(self, obj: Any, why: str, instead: str) -> None:
        super().__init__(why)
        self.obj, self.why = obj, why  # "a tensor that ..."
        self.instead = instead  # ".item()", which gives its value


class _Restoring:
    """Stands for what restores, see restoring.py."""


class SnapshotPickler(GraphPickler):
    """A GraphPickler whose stream begins with the namespace, the bytes' table, what restores, and the program."""

    is_snapshot = True
    passed_on: tuple[type[BaseException], ...] = (RecursionError, MemoryError, TookTooLong, NotHere, Unready)

    def __init__(self, program: Any, namespace: Namespace, known: Callable[[int], int | None]) -> None:
        recorder = Recorder(known=known)
        self.restoring: Any = _Restoring()
        self.program: Any = program if program is not None else object()
        self.ran: Any = None if program is None else program.ran
        given = [namespace, recorder, self.restoring, self.program]
        super().__init__(namespace, recorder, {id(one): (number, one) for number, one in enumerate(given)}, back=True)
        self.on_devices: dict[int, Any] = {}  # storages by their number
        self.parts: dict[Any, Any] = {}  # what splits a tensor, by its node
        self.tried: frozenset[int] = frozenset()  # caches in which it is tried out what can be saved, by their id()
        self.files: dict[str, bool] = {}  # of the user's, that are open for writing, and whether for reading, too

    def kept_home(self, fn: Any) -> Any:
        is_run = self.ran is not None and self.ran.is_run(fn.__code__.co_filename)
        return self.ran.home(fn.__globals__) if is_run else None

    def take_file(self, path: str, *, read: bool) -> None:
        self.files[path] = read or self.files.get(path, False)

    def kind(self, cls: type) -> Kind:
        kind = self.kinds.get(cls)
        if kind is None:
            kind = self.kinds[cls] = _own_kind(cls) or kind_of(cls, {})
        return kind

    def stays(self, obj: Any) -> bool:
        if isinstance(obj, weakref.ref):
            return is_of_its_own_kind(obj)
        if endings.kind_of(type(obj)):
            return not endings.has_ended(obj)
        return is_held(obj) if type(obj) in LOCKS else self.kind(type(obj)) is REFUSED

    def refuse(self, obj: Any, why: str) -> Reduced:
        what = why.split(". ")[0].rstrip(".")  # what follows is advice for who sends it to a worker
        iterates = hasattr(type(obj), "__next__") and not isinstance(obj, io.IOBase)
        return self.name_it(obj, f"{what}. {_LISTED if iterates else _ADVICE}")

    def name_it(self, obj: Any, why: str) -> Reduced:
        """Refuse an object, with a sentence that says what it is and what to do."""
        if len(self.refusals) < _MANY:
            super().refuse(obj, why)
        return _nothing, ()


def _nothing() -> None:
    """Stands where an object could not be saved, in a stream that nobody will read."""


def _own_kind(cls: type) -> Kind | None:
    return next((found for family in _families() if (found := family.find(cls)) is not None), None)


def _families() -> Iterator[Any]:
    # torch's types can only be met where torch is loaded, and so can those of tqdm and TensorBoard.
    for family in (*(_OF_TORCH if "torch" in sys.modules else ()), *_FAMILIES):
        yield import_module(f"{__package__}.{family}")


def import_families() -> None:
    """What a snapshot imports where it first meets a type, for a process that has time now."""
    list(_families())
