"""The worker's side: the kernel's variables opened, and at the end what became of them."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...errors import CannotArrive
from ..kind import Kind, kind_of, no_state, unchanged
from ..memory import GraphMemory
from ..opening import ByteSource, Opener, Whole
from ..paths import where
from ..sources import make_known
from ..spans import Recorder
from ..stream import (
    NOT_OURS,
    GraphPickler,
    GraphUnpickler,
    Namespace,
    Refusal,
    a_thing,
    deeply,
    origins_by_id,
    without_collecting,
)
from ..wire import seal, split
from .reply import Reply

_HISTORY = re.compile(r"__.*|_|_\d+|_i+|_i\d+|_[iod]h")  # dunder names, and what IPython keeps of earlier cells


@dataclass(frozen=True)
class OpenedGraph:
    """A graph's variables, all its objects by number, and how they find their bytes."""

    header: dict[str, Any]
    objects: list[Any]
    opener: Opener


def open_graph(
    graph: bytes, source: ByteSource, namespace: Namespace, values: Namespace, *, private: bool = False
) -> OpenedGraph:
    """Read the variables into `values`; functions among them get `namespace` as their globals."""
    header, stream = split(graph)
    sys.path += [entry for entry in header["path"] if entry not in sys.path]
    make_known(header.get("sources", {}))
    name, opener = "", Opener()
    try:
        files = [(path, writable and not private) for path, writable in header["files"]]
        opener.extend(header["table"], files, source)
        unpickler = GraphUnpickler(stream, [namespace, opener], opener, header["buffers"])
        for name in header["names"]:
            values[name] = unpickler.load()
    except CannotArrive as error:
        raise CannotArrive(name, error.why) from error
    except Exception as error:
        raise CannotArrive(name, f"{type(error).__name__}: {error}.") from error
    return OpenedGraph(header, unpickler.objects(), opener)


def receive(graph: bytes, memory: GraphMemory, namespace: Namespace, *, private: bool = False) -> Arrival:
    """Open a shipment in a worker's namespace. Its tensors stand on the shared memory itself; nothing is copied.

    `private`: what is written to them stays in this process, which only tries something out.
    """
    whole = Whole(memory, private=private)
    kinds: dict[type, Kind] = {}
    began = time.time()
    with without_collecting():
        opened = open_graph(graph, whole, namespace, namespace, private=private)
        marks = list(_marks(opened.objects, kinds))
    return Arrival(graph, memory, namespace, opened, whole, marks, dict(namespace), kinds, began)


@dataclass(frozen=True)
class Arrival:
    """What came, as it came: a reply tells the difference."""

    graph: bytes
    memory: GraphMemory
    namespace: Namespace
    opened: OpenedGraph = field(repr=False)
    whole: Whole = field(repr=False)
    marks: list[tuple[Any, Kind, Any]] = field(repr=False)
    bindings: Namespace = field(repr=False)  # which also keeps the objects, so that no other can take their place
    kinds: dict[type, Kind] = field(repr=False)
    began: float  # seconds since 1970: before anything here could have written to a file that came along

    def reply(self, skip: Callable[[str], bool] = lambda name: False) -> Reply:
        """Write what the cell assigned, deleted and changed. What cannot be sent stays, and the reply names it."""
        with without_collecting():
            try:
                return self._reply(skip)
            except RecursionError:
                return deeply(lambda: self._reply(skip))

    def _reply(self, skip: Callable[[str], bool]) -> Reply:
        deleted = [name for name in self.opened.header["names"] if name not in self.namespace]
        changed = [(obj, kind) for obj, kind, then in self.marks if not unchanged(then, kind.picture(obj))]
        bound = {name: value for name, value in list(self.namespace.items()) if self._is_new(name, value, skip)}
        broken: list[Refusal] = []
        while (written := self._write(bound, changed, broken)) is None:
            bound = {name: value for name, value in bound.items() if all(value is not one.obj for one in broken)}
            changed = [(obj, kind) for obj, kind in changed if all(obj is not one.obj for one in broken)]
        pickler, recorder = written
        layout = recorder.lay_out()
        memory = GraphMemory.create(layout.size)
        memory.write(layout.pieces)
        for foreign in layout.foreign:
            foreign.write(memory.map(foreign.offset, foreign.nbytes))
        header = {
            "bound": list(bound),
            "deleted": deleted,
            "changes": len(changed),
            "left_behind": [self._place(refusal) for refusal in (*broken, *pickler.refusals[:100])],
            "table": layout.table,
            "files": layout.files,
            "extents": layout.extents,
            "buffers": pickler.buffers,
            "path": list(sys.path),
            "sources": pickler.sources,
        }
        graph = seal(header, pickler.stream.getvalue())
        return Reply(graph, memory, self.graph, self.memory)

    def _is_new(self, name: str, value: Any, skip: Callable[[str], bool]) -> bool:
        if name in NOT_OURS or _HISTORY.fullmatch(name) or skip(name):
            return False
        same = name in self.bindings and self.bindings[name] is value
        return not same or kind_of(type(value), self.kinds).replaced

    def _write(
        self,
        bound: Namespace,
        changed: list[tuple[Any, Kind]],
        broken: list[Refusal],
        stored: Mapping[int, Any] | None = None,
    ) -> tuple[GraphPickler, Recorder] | None:
        """Pickle it all; None if one object breaks the stream, which is then among `broken`.

        `stored`: objects whose id() is a number somewhere in it; not yet known: they are looked for.
        """
        recorder = Recorder(len(self.opened.opener), self.whole.offset_of)
        objects = [self.namespace, recorder, *self.opened.objects[2:]]
        origins = origins_by_id(objects, {cls for cls, kind in self.kinds.items() if kind.replaced})
        pickler = GraphPickler(self.namespace, recorder, origins, back=True)
        pickler.take_ids(stored or {})
        written: Any = None
        try:
            for pickler.name, written in bound.items():
                pickler.dump(written)
            pickler.name = ""
            for written, kind in changed:
                pickler.dump((kind.fill, kind.hashes, written, kind.state(written)))
        except (RecursionError, MemoryError):
            raise
        except Exception as error:
            broken.append(Refusal(pickler.name, written, f"{a_thing(written)} that cannot be copied ({error})."))
            return None
        if stored is None and (stored := pickler.stored_ids()):
            return self._write(bound, changed, broken, stored)
        return pickler, recorder

    def _place(self, refusal: Refusal) -> tuple[str, str, str]:
        roots = {name: value for name, value in self.namespace.items() if not _HISTORY.fullmatch(name)}
        if refusal.name:
            roots = {refusal.name: self.namespace[refusal.name]}
        name, path = where(roots, refusal.obj) or (refusal.name, refusal.name or a_thing(refusal.obj))
        return name, path, refusal.why


def _marks(objects: list[Any], kinds: dict[type, Kind]) -> Iterator[tuple[Any, Kind, Any]]:
    """A picture of everything that the cell may change in place."""
    for obj in objects[2:]:
        kind = kind_of(type(obj), kinds)
        if kind.state is not no_state:
            mark = kind.picture(obj)
            if mark is not None:
                yield obj, kind, mark
