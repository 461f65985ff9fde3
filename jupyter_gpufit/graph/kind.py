"""How the objects of each type travel. A Kind makes an object empty and fills it afterwards, so cycles are no problem;
and what fills a new object on the way in fills the kernel's own object again on the way back.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from operator import is_
from types import BuiltinMethodType, CodeType, MethodType, MethodWrapperType
from typing import Any, Protocol

from .spans import Recorder

Reduced = Any  # what pickle's reducer_override may return: a tuple, a global's name or NotImplemented


class Pickler(Protocol):
    """What a Kind asks of whoever pickles: a graph that goes to a worker and back, or a process's snapshot."""

    namespace: dict[str, Any]  # the notebook's
    name: str  # the variable that is being written
    remarks: list[str]  # what the user is to know of how it travels: sentences
    recorder: Recorder
    back: bool  # it is the way back
    is_snapshot: bool  # for a process that goes on elsewhere; then it is `back`, too
    clean: set[int]  # ids of objects that lead to nothing that cannot travel
    not_by_name: dict[int, str]  # why what goes as a part of something cannot as a variable, by id
    graphs_stay: list[Any]  # tensors that go without what they were computed of
    made_anew: set[int]  # ids of tensors that a module computes again before anybody needs their graph

    @property
    def dispatch_table(self) -> Any: ...
    def kind(self, cls: type) -> Kind: ...
    def beside(self) -> Any: ...
    def stays(self, obj: Any) -> bool: ...
    def refuse(self, obj: Any, why: str) -> Reduced: ...
    def want(self, code: CodeType, function: str) -> None: ...
    def want_names(self, names: Iterable[str], function: str) -> None: ...
    def want_class(self, cls: type) -> None: ...
    def take_source(self, filename: str, code: CodeType | None = None) -> None: ...
    def kept_home(self, fn: Any) -> Any: ...
    def name_in_module(self, obj: Any, module: str) -> str | None: ...
    def home_of(self, obj: Any) -> str | None: ...
    def reduce_by_value(self, fn: Any) -> Reduced: ...
    def reduce_as_cloudpickle_does(self, obj: Any) -> Reduced: ...


def reduce_as_pickle_does(obj: Any, pickler: Pickler) -> Reduced:
    return NotImplemented


def nothing_to_fill(obj: Any, state: Any) -> None:
    raise AssertionError(f"{type(obj)} has no state")


def no_state(obj: Any) -> Any:
    return None


class TookTooLong(Exception):
    """What is tried out leads to more than it is worth."""


@dataclass(frozen=True)
class Kind:
    """How the objects of one type travel.

    `state` is a fresh, shallow picture of what may change in place (None: nothing may), `fill` puts it into an object,
    `mark` is the picture to compare where the state itself would be dear to make or keep.
    """

    reduce: Callable[[Any, Any], Reduced] = (
        reduce_as_pickle_does  # with a Pickler: a snapshot's kinds ask more of theirs
    )
    state: Callable[[Any], Any] = no_state
    fill: Callable[[Any, Any], None] = nothing_to_fill
    mark: Callable[[Any], Any] | None = None
    hashes: bool = False  # filling it hashes other objects, which must be filled before
    reads_names: bool = False  # making it reads the notebook's names
    replaced: bool = False  # cannot be changed in place (an enumerate at a position): sent anew every time

    def picture(self, obj: Any) -> Any:
        return self.state(obj) if self.mark is None else self.mark(obj)


_FIXED = (tuple, frozenset, MethodType, MethodWrapperType, BuiltinMethodType)
ATOMS = (int, float, str, bool, bytes, complex, slice)
_FAMILIES = (
    "kinds.anew",
    "kinds.locks",
    "kinds.pools",
    "kinds.contexts",
    "kinds.futures",
    "kinds.widgets",
    "kinds.ended",
    "kinds.shared_values",
    "refusals",
    "kinds.containers",
    "kinds.classes",
    "kinds.enums",
    "kinds.caches",
    "kinds.functions",
    "kinds.generators",
    "kinds.exceptions",
    "kinds.iterations",
    "kinds.loggers",
    "kinds.opened_files",
    "kinds.weak",
    "kinds.odd",
    "kinds.opened_archives",
    "kinds.file_locks",
    "kinds.rich_consoles",
    "kinds.directories",
    "kinds.parents",
    "kinds.simulators",
    "kinds.archived",
    "kinds.default_generators",
    "kinds.instances",
)
_OF_LIBRARIES = {
    "torch": "kinds.tensors",
    "torch.utils.data.dataloader": "kinds.loader_iterators",
    "torch.utils.tensorboard": "kinds.writers",
    "tensorboard.summary.writer.event_file_writer": "kinds.writers",
    "tensorboardX": "kinds.writers",
    "numpy": "kinds.arrays",
    "matplotlib.transforms": "kinds.figures",
    "pandas": "kinds.frames",
    "pandas.io.parsers.readers": "kinds.frame_readers",
    "h5py": "kinds.hdf5",
    "sqlite3": "kinds.databases",
    "lmdb": "kinds.databases",
    "pygame": "kinds.surfaces",
    "wandb": "kinds.tracked_runs",
    "wrapt": "kinds.wrapped",
}


def kind_of(cls: type, known: dict[type, Kind]) -> Kind:
    """The Kind of a type. `known` belongs to one crossing, so that classes of the notebook are not kept for ever."""
    kind = known.get(cls)
    if kind is None and not hasattr(cls, "__module__"):  # some compiled ones (SWIG's): nothing else is known of them
        kind = known[cls] = import_module(f"{__package__}.kinds.generic").GENERIC
    if kind is None:
        # A library's types can only be met where the library is loaded, and the kernel need not load it for us.
        loaded = [family for library, family in _OF_LIBRARIES.items() if library in sys.modules]
        kind = known[cls] = next(found for one in (*loaded, *_FAMILIES) if (found := _finder(one)(cls)) is not None)
    return kind


@cache
def _finder(family: str) -> Callable[[type], Kind | None]:
    find: Callable[[type], Kind | None] = import_module(f"{__package__}.{family}").find
    return find


def import_families() -> None:
    """What a crossing imports where it first meets a type, for a process that has time now."""
    for family in (*(family for library, family in _OF_LIBRARIES.items() if library in sys.modules), *_FAMILIES):
        import_module(f"{__package__}.{family}")


def unchanged(then: Any, now: Any) -> bool:
    """Whether two pictures of one object show the same: a tuple is our record, a list or dict its contents."""
    if then is now:
        return True
    if type(then) is not type(now):
        return False
    if type(then) is tuple:
        return len(then) == len(now) and all(map(unchanged, then, now))
    if type(then) is list:
        return len(then) == len(now) and all(map(is_, then, now))
    if type(then) is dict:
        return len(then) == len(now) and all(map(is_, then, now)) and all(map(is_, then.values(), now.values()))
    return isinstance(then, ATOMS) and bool(then == now)


def holds_one_of(ids: Container[int], picture: Any) -> bool:
    """Whether one of these objects is among what a picture shows."""
    if type(picture) is tuple:
        return any(id(one) in ids or holds_one_of(ids, one) for one in picture)
    shown = picture.values() if type(picture) is dict else picture if type(picture) is list else ()
    return any(id(one) in ids for one in shown)


def sent_anew(objects: Sequence[Any], kinds: Mapping[type, Kind]) -> set[int]:
    """The id() of those that cannot be changed in place, and of what cannot be filled: a tuple of one."""
    found = {id(one) for one in objects if (kind := kinds.get(type(one))) is not None and kind.replaced}
    if not found:
        return found
    fixed = [(id(one), {*map(id, gc.get_referents(one))}) for one in objects if isinstance(one, _FIXED)]
    while more := {number for number, held in fixed if number not in found and not found.isdisjoint(held)}:
        found |= more
    return found
