"""The worker's side: the kernel's variables opened, and at the end what became of them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import CannotArrive
from ...system.collecting import without_collecting
from ..deep import deeply
from ..kind import Kind, holds_one_of, kind_of, no_state, sent_anew, unchanged
from ..memory import GraphMemory, settle
from ..modules import Here
from ..opening import ByteSource, Opener, Whole
from ..paths import where
from ..put_back import put_back
from ..sources import make_known
from ..spans import Recorder
from ..stream import (
    HISTORY,
    Around,
    GraphPickler,
    GraphUnpickler,
    Namespace,
    Refusal,
    a_thing,
    is_the_shells,
    origins_by_id,
)
from ..texts import compared_by_identity
from ..wire import seal, split
from .graphs import let_gradients_end
from .reply import Reply


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
    put_back(header.get("ahead", ()))
    name, opener = "", Opener()
    try:
        files = [(path, writable and not private) for path, writable in header["files"]]
        opener.extend(header["table"], files, source, alone=header.get("alone", ()))
        unpickler = GraphUnpickler(stream, [namespace, opener], opener, header["buffers"])
        if header.get("anchored"):
            unpickler.load()
        for name in header["names"]:
            if name == header.get("around"):
                _open_around(header["names"], name, unpickler, values)
                header = {**header, "names": tuple(one for one in header["names"] if one in values)}
                break
            values[name] = unpickler.load()
    except CannotArrive as error:
        raise CannotArrive(name, error.why) from error
    except SystemExit as error:
        raise CannotArrive(
            name,
            f"a module that it needs ends the process as it is imported ({error!r}). If it reads the command line: that"
            f" is {sys.argv!r} now, as in the notebook.",
        ) from error
    except Exception as error:
        raise CannotArrive(name, f"{type(error).__name__}: {error}.") from error
    objects = unpickler.objects()  # what could not be opened keeps its numbers: the reply's come after them
    let_gradients_end(objects[number] for number in header.get("ends", ()) if number < len(objects))
    objects += [object() for _ in range(header.get("objects", 0) - len(objects))]
    return OpenedGraph(header, objects, opener)


def _open_around(names: Sequence[str], first: str, unpickler: GraphUnpickler, values: Namespace) -> None:
    """What travels around the variables, and what only that uses: where it cannot be opened, a sentence stands there.

    It is not worth a job, and comes last: nothing else is in the rest of the stream. The names that did not come are
    none of this process's, which must not seem to have deleted them.
    """
    try:
        for name in names[names.index(first) :]:
            values[name] = unpickler.load()
    except (Exception, SystemExit) as error:
        values[first] = {"failed": f"What earlier cells set in libraries could not be opened in the worker: {error}"}


def receive(graph: bytes, memory: GraphMemory, namespace: Namespace, *, private: bool = False) -> Arrival:
    """Open a shipment in a worker's namespace. Its tensors stand on the shared memory itself; nothing is copied.

    `private`: what is written to them stays in this process, which only tries something out.
    """
    whole = Whole(memory, private=private)
    kinds: dict[type, Kind] = {}
    began = time.time()
    with without_collecting():
        opened = open_graph(graph, whole, namespace, namespace, private=private)
        if not private:
            whole.share(opened.header.get("shared", ()))
        marks = list(_marks(opened.objects, kinds, frozenset(opened.header.get("anchored", ()))))
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

    def reply(
        self,
        skip: Callable[[str], bool] = lambda name: False,
        around: Around | None = None,
        unasked: Container[str] = (),
    ) -> Reply:
        """Write what the cell assigned, deleted and changed. What cannot be sent stays, and the reply names it.

        `unasked`: names under which nobody misses anything.
        """
        with without_collecting():
            try:
                return self._reply(skip, around, unasked)
            except RecursionError:
                return deeply(lambda: self._reply(skip, around, unasked))

    def _reply(self, skip: Callable[[str], bool], around: Around | None, unasked: Container[str]) -> Reply:
        deleted = [name for name in self.opened.header["names"] if name not in self.namespace]
        replaced = sent_anew(self.opened.objects, self.kinds)
        changed = [
            (obj, kind)
            for obj, kind, then in self.marks
            if not unchanged(then, now := kind.picture(obj)) or (replaced and holds_one_of(replaced, now))
        ]
        names = list(self.namespace.items())
        bound = {name: value for name, value in names if self._is_new(name, value, replaced, skip)}
        if around is not None:
            bound.pop(around.name, None)
        broken: list[Refusal] = []
        came = set(map(id, self.opened.objects))
        there: list[Here] = [one for one in compared_by_identity() if id(one[0]) not in came]
        stored: Mapping[int, Any] = {}
        left = False
        while True:
            pickler, broke = self._write(bound, changed, replaced, around, there, stored)
            if found := pickler.missing(there, None if broke else around, self.opened.objects):
                there += found
                continue
            if around is not None and any(one.name == around.name for one in (broke or pickler.refusals)):
                if left:
                    around = None  # no result is lost for its sake
                else:
                    around.leave()
                left = True
                continue
            if not broke:
                if stored or not (stored := pickler.stored_ids()):
                    break
                continue
            broken += broke
            bound = {name: value for name, value in bound.items() if all(value is not one.obj for one in broken)}
            changed = [(obj, kind) for obj, kind in changed if all(obj is not one.obj for one in broken)]
        self.whole.put_back()
        settle()
        layout = pickler.recorder.lay_out()
        memory = GraphMemory.create(layout.size)
        memory.write(layout.pieces)
        for foreign in layout.foreign:
            foreign.write(memory.map(foreign.offset, foreign.nbytes))
        # What a library gave the root logger, say, is reached by no variable, and nobody's loss.
        refused = [one for one in (*broken, *pickler.refusals[:100]) if one.name not in unasked]
        places = [self._place(refusal) for refusal in refused]
        header = {
            "bound": list(bound),
            "deleted": deleted,
            "changes": len(changed),
            "anchored": pickler.anchored,
            "around": None if around is None else around.name,
            "left_behind": [place for place in places if around is None or place[0] != around.name],
            "table": layout.table,
            "alone": layout.alone,
            "shared": layout.shared,
            "files": layout.files,
            "extents": layout.extents,
            "buffers": pickler.buffers,
            "path": list(sys.path),
            "argv": list(sys.argv),
            "sources": pickler.sources,
        }
        graph = seal(header, pickler.stream.getvalue())
        return Reply(graph, memory, self.graph, self.memory)

    def _is_new(self, name: str, value: Any, replaced: Container[int], skip: Callable[[str], bool]) -> bool:
        if is_the_shells(name, value) or HISTORY.fullmatch(name) or skip(name):
            return False
        same = name in self.bindings and self.bindings[name] is value
        return not same or id(value) in replaced

    def _write(
        self,
        bound: Namespace,
        changed: list[tuple[Any, Kind]],
        replaced: Container[int],
        around: Around | None,
        there: list[Here],
        stored: Mapping[int, Any],
    ) -> tuple[GraphPickler, list[Refusal]]:
        """Pickle it all; the object that breaks the stream, if one does.

        `stored`: objects whose id() is a number somewhere in it.
        """
        recorder = Recorder(len(self.opened.opener), self.whole.offset_of)
        objects = [self.namespace, recorder, *self.opened.objects[2:]]
        origins = origins_by_id(objects, replaced)
        pickler = GraphPickler(self.namespace, recorder, origins, back=True)
        pickler.take_ids(stored)
        written: Any = None
        try:
            pickler.anchor(there)
            for pickler.name, written in bound.items():
                pickler.dump(written)
            pickler.name = ""
            for written, kind in changed:
                pickler.dump((kind.fill, kind.hashes, written, kind.state(written)))
            if around is not None:  # last: where it cannot be read, nothing else is lost
                pickler.name = around.name
                around.fill(pickler)
                written = self.namespace[around.name]
                pickler.dump(written)
        except (RecursionError, MemoryError):
            raise
        except Exception as error:
            why = f"{a_thing(written)} that cannot be copied ({error})."
            return pickler, [Refusal(pickler.name, written, why)]
        return pickler, []

    def _place(self, refusal: Refusal) -> tuple[str, str, str]:
        named = self.namespace.items()
        roots = {one: value for one, value in named if not (HISTORY.fullmatch(one) or is_the_shells(one, value))}
        if refusal.name:
            roots = {refusal.name: self.namespace[refusal.name]}
        name, path = where(roots, refusal.obj) or (refusal.name, refusal.name or a_thing(refusal.obj))
        return name, path, refusal.why


def _marks(objects: list[Any], kinds: dict[type, Kind], anchored: frozenset[int]) -> Iterator[tuple[Any, Kind, Any]]:
    """A picture of everything that the cell may change in place, and that came; what was here is told apart."""
    for number, obj in enumerate(objects[2:], 2):
        if number in anchored:
            continue
        kind = kind_of(type(obj), kinds)
        if kind.state is not no_state:
            mark = kind.picture(obj)
            if mark is not None:
                yield obj, kind, mark
