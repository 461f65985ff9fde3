"""The kernel's side: variables out to a worker, and what became of them back into the very same objects."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ...errors import CannotTravel, NoRoomToTravel
from ...system.collecting import without_collecting
from .. import made_later
from ..deep import deeply
from ..kinds.classes import runs_when_opened
from ..kinds.figures import draw_again
from ..made_modules import beyond_imports
from ..memory import GraphMemory
from ..modules import Here
from ..opening import Opener, Original
from ..paths import where
from ..put_back import written
from ..refusals import is_widget
from ..spans import MEMORY, Recorder, Region, SpanLayout
from ..stream import Around, GraphPickler, Namespace, Refusal, a_thing
from ..texts import compared_by_identity
from ..undo import Undo
from ..wire import seal
from . import graphs
from .back import Returned, apply_reply, parted, restore_bytes
from .reply import Reply
from .threads import shared_with_threads


@dataclass(frozen=True)
class Shipment:
    """Variables on their way to a worker. It keeps the kernel's objects alive, so that they can be found again."""

    graph: bytes
    memory: GraphMemory
    names: tuple[str, ...]  # those asked for and those that their functions use
    sizes: dict[str, int]  # bytes per name; what two names share counts for the first
    remarks: tuple[str, ...] = field(default=(), kw_only=True)  # on what does not travel and is not worth a refusal
    by_text: bool = field(default=False, kw_only=True)  # one of their functions may read any name: by globals(), say
    _values: Namespace = field(repr=False)  # what the names had
    _origins: list[Any] = field(repr=False)
    _layout: SpanLayout = field(repr=False)

    def widgets(self) -> dict[str, Any]:
        """Those among the objects, by their names in the browser."""
        if "ipywidgets" not in sys.modules:
            return {}
        of_widgets = {cls for cls in set(map(type, self._origins)) if is_widget(cls)}
        found = [one for one in self._origins if type(one) in of_widgets]
        return {one.model_id: one for one in found if one.comm is not None}

    def bring_back(self, reply: Reply, namespace: Namespace, earlier: Undo | None = None) -> Returned:
        """Let the kernel's own objects become what the worker made of them, and bind the names it assigned.

        `earlier`: takes back the reply of the same job that came before, and was then resumed.

        What the kernel itself changed meanwhile is lost where the worker had the same object. A reply that cannot be
        read changes nothing.
        """
        opener = Opener()
        original = Original(self._layout.regions)
        opener.extend([(MEMORY, 0, 0)] * len(self._layout.table), [], original)
        came_in = reply.input_memory or self.memory
        regions: list[Region] = []

        def before() -> None:
            if earlier is not None:
                earlier.run(namespace)
            regions.extend(restore_bytes(came_in, self._layout.regions))

        returned = apply_reply(reply, namespace, self._origins, opener, original, before)
        undrawn = draw_again(self._origins)
        gone = {*returned.names, *returned.deleted}  # by the worker's own doing
        shipped = {name: value for name, value in self._values.items() if name not in gone}
        return replace(
            returned,
            parted=parted(shipped, namespace, returned.changed, regions),
            remarks=(*undrawn, *made_later.said_of_returned()),
        )


def ship(
    names: Iterable[str],
    namespace: Namespace,
    around: Around | None = None,
    may_train: Callable[[Namespace], bool] = lambda values: True,
    certain: Container[str] | None = None,
) -> Shipment:
    """Copy variables for a worker, with everything they refer to. Raises CannotTravel before anything is copied.

    `may_train`: whether a training could need them, which goes along: to know it there takes opening them. `certain`:
    those that are used as they are; None: all.
    """
    names = list(names)
    with without_collecting():
        try:
            return _ship(names, namespace, around, may_train, certain)
        except RecursionError:
            return deeply(lambda: _ship(names, namespace, around, may_train, certain))


def _ship(
    names: list[str],
    namespace: Namespace,
    around: Around | None,
    may_train: Callable[[Namespace], bool],
    certain: Container[str] | None,
) -> Shipment:
    pickler, sizes = _written(names, namespace, around, {}, certain)
    if stored := pickler.stored_ids():
        pickler, sizes = _written(names, namespace, around, stored, certain)
    layout = pickler.recorder.lay_out()
    _check_room(layout.size, sizes)
    memory = GraphMemory.create(layout.size)
    memory.write(layout.pieces)
    known = pickler.known()  # once: to copy a memo takes as long as to write it
    values = {name: namespace[name] for name in sizes}
    header = {
        "names": tuple(sizes),
        "places": pickler.places,
        "around": None if around is None else around.name,
        "ahead": [] if around is None else written(around.lost),
        "anchored": pickler.anchored,
        "ends": graphs.that_end(pickler, sizes, known),
        "objects": len(known),
        "table": layout.table,
        "alone": layout.alone,
        "shared": layout.shared,
        "files": layout.files,
        "extents": layout.extents,
        "buffers": pickler.buffers,
        "may_train": may_train(values),
        "path": list(sys.path),
        "sources": pickler.sources,
        "run": pickler.run_texts.found,
    }
    origins = [obj for _, obj in sorted(known.values(), key=lambda numbered: numbered[0])]
    graph = seal(header, pickler.stream.getvalue())
    remarks = tuple(dict.fromkeys((*pickler.remarks, *shared_with_threads(origins, partial(_called, values)))))
    return Shipment(
        graph, memory, tuple(sizes), sizes, values, origins, layout, remarks=remarks, by_text=pickler.by_text
    )


def _written(
    names: list[str],
    namespace: Namespace,
    around: Around | None,
    stored: Mapping[int, Any],
    certain: Container[str] | None,
) -> tuple[GraphPickler, dict[str, int]]:
    """What wrote it all, and bytes per name; `stored`: see `take_ids`.

    Where opening it runs methods of the notebook's classes, the names are in the notebook's own order: what a
    `__setstate__` reads is there before it.
    """
    there: list[Here] = [*compared_by_identity(), *beyond_imports(partial(_travels, namespace))]
    is_ordered = left = False
    while True:
        recorder = Recorder()
        pickler = GraphPickler(
            namespace, recorder, {id(namespace): (0, namespace), id(recorder): (1, recorder)}, back=False
        )
        pickler.take_ids(stored)
        pickler.anchor(there)
        sizes = _write_names(pickler, names)
        graphs.refuse(pickler, sizes, certain)
        if not is_ordered and _reads_names(pickler):
            is_ordered, written_as = True, list(sizes)
            names = [name for name in namespace if name in sizes]
            if names != written_as:
                continue
        if around is not None and not pickler.refusals:
            around.fill(pickler)
            sizes = _write_names(pickler, [around.name], sizes)
            graphs.refuse(pickler, sizes, certain)
            if pickler.refusals and not pickler.missing(there, None) and not left:
                around.leave()
                left = True
                continue
        # An object that the worker has, too, must be that one: written once more, with those at the beginning.
        if not (found := pickler.missing(there, around)):
            break
        there += found
    if pickler.refusals:
        raise _cannot_travel(pickler)
    return pickler, sizes


def _travels(namespace: Namespace, value: Any) -> bool:
    trial = GraphPickler(namespace, Recorder(), {id(namespace): (0, namespace)}, back=False)
    with suppress(Exception):
        trial.dump(value)
        return not trial.refusals
    return False


def _reads_names(pickler: GraphPickler) -> bool:
    return any(kind.reads_names or runs_when_opened(cls) for cls, kind in pickler.kinds.items())


def _write_names(pickler: GraphPickler, names: list[str], written: dict[str, int] | None = None) -> dict[str, int]:
    """Write the names, then those that their functions use, and so on; returns bytes per name."""
    sizes = dict(written or {})
    todo = list(names)
    while todo:
        pickler.name = name = todo.pop(0)
        if name in sizes or name not in pickler.namespace:
            continue
        begin = pickler.stream.tell()
        before = begin + pickler.recorder.nbytes
        value = pickler.namespace[name]
        why = pickler.not_by_name.get(id(value))
        if why is not None and not graphs.stays(value, pickler):
            pickler.refuse(value, why)  # it was met as a part of another variable
        try:
            pickler.dump(value)
        except (RecursionError, MemoryError):
            raise
        except Exception as error:
            pickler.refusals.append(Refusal(name, value, f"{a_thing(value)} that cannot be copied ({error})."))
            break  # the stream is broken from here on
        sizes[name] = pickler.stream.tell() + pickler.recorder.nbytes - before
        pickler.places[name] = begin, pickler.stream.tell()
        todo += [wanted for wanted in pickler.wanted if wanted not in sizes and wanted not in todo]
    return sizes


def _called(values: Namespace, obj: Any) -> str:
    place = where(values, obj)
    return place[1] if place else a_thing(obj)


def _cannot_travel(pickler: GraphPickler) -> CannotTravel:
    found = []
    first_of_its_sort = {(refusal.name, refusal.why): refusal for refusal in reversed(pickler.refusals)}
    for refusal in reversed(first_of_its_sort.values()):
        name = refusal.name
        # What the worker has, too, stands at the beginning, before all names: then it is looked for in all of them.
        known = pickler.namespace
        place = where({name: known[name]} if name else known, refusal.obj)
        name = name or (place[0] if place else a_thing(refusal.obj))
        user = pickler.wanted.get(name)
        why = f"{refusal.why} (The function {user} uses {name}.)" if user else refusal.why
        found.append(CannotTravel(name, place[1] if place else name, why))
    found[0].others = tuple(found[1:])
    return found[0]


def _check_room(needed: int, sizes: dict[str, int]) -> None:
    import psutil

    free = psutil.virtual_memory().available
    if needed > free:
        raise NoRoomToTravel(needed, free, max(sizes, key=lambda name: sizes[name]))
