"""From a reply into a namespace: read everything, and only then touch anything."""

from __future__ import annotations

import ctypes
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FunctionType, ModuleType
from typing import Any

from ...system.collecting import without_collecting
from ..memory import GraphMemory, copy_differences
from ..opening import Adopted, ByteSource, Opener, Whole
from ..paths import search, where
from ..sources import make_known
from ..spans import Region
from ..stream import Namespace
from ..unavailable import Unavailable
from ..undo import Undo
from ..wire import split
from .arrival import open_graph
from .reply import LeftBehind, Reply
from .values import Lost, read_values


@dataclass(frozen=True)
class Returned:
    """What a reply did to the namespace."""

    names: tuple[str, ...]  # bound anew
    deleted: tuple[str, ...]
    left_behind: tuple[LeftBehind, ...]
    changed: tuple[Any, ...] = field(default=(), repr=False)  # the kernel's objects that were filled anew
    # Of names that have got another value since they were shipped: what they had then, where the worker changed it.
    parted: Namespace = field(default_factory=dict, repr=False)
    undo: Undo = field(default_factory=Undo, repr=False)
    remarks: tuple[str, ...] = ()  # on what came and is not quite as it should be


@dataclass(frozen=True)
class _Change:
    """New contents for an object that came from the kernel."""

    fill: Callable[[Any, Any], None]
    hashes: bool
    obj: Any
    state: Any


def bring_into(namespace: Namespace, reply: Reply, earlier: Undo | None = None) -> Returned:
    """Open a reply where its objects never were, as in a restarted kernel: first the input, then what became of it.

    `earlier`: takes back the reply of the same job that came before, and was then resumed.
    """
    assert reply.input_graph is not None and reply.input_memory is not None
    came_in = Adopted(reply.input_memory, split(reply.input_graph)[0], private=True)
    values: Namespace = {}
    opened = open_graph(reply.input_graph, came_in, namespace, values)
    opened_here = Undo()

    def put_input() -> None:
        if earlier is not None:
            earlier.run(namespace)
        opened_here.note_names(namespace, values, ())
        namespace.update(values)

    returned = apply_reply(reply, namespace, opened.objects, opened.opener, came_in, put_input)
    kept = [name for name in values if name not in returned.deleted]
    undo = returned.undo.then(opened_here)  # the objects came with it
    return Returned(tuple(dict.fromkeys([*kept, *returned.names])), returned.deleted, returned.left_behind, undo=undo)


def apply_reply(
    reply: Reply,
    namespace: Namespace,
    origins: Sequence[Any],
    opener: Opener,
    came_in: ByteSource,
    before: Callable[[], object],
) -> Returned:
    """Read a reply, run `before`, fill the objects that changed, and bind names."""
    header, stream = split(reply.graph)
    left_behind = [LeftBehind(*found) for found in header["left_behind"]]
    private = reply.input_memory is not None  # it was saved: the file is not ours alone
    adopted = Adopted(reply.memory, header, private=private)
    opener.extend(header["table"], header["files"], adopted, came_in, alone=header.get("alone", ()))
    sys.path += [entry for entry in header["path"] if entry not in sys.path]
    make_known(header.get("sources", {}))
    with without_collecting(), _called(header.get("argv", sys.argv)):
        values, changes, lost = _read(stream, header, [namespace, opener, *origins[2:]], opener)
    before()
    undo = Undo()
    undo.note_objects(change.obj for change in changes)
    undo.note_names(namespace, values, header["deleted"])
    for change in sorted(changes, key=lambda change: change.hashes):
        try:
            change.fill(change.obj, change.state)
        except Exception as error:  # one object that refuses its state must not keep the others from theirs
            thing = f"a {type(change.obj).__name__}"
            left_behind.append(LeftBehind("", thing, f"{thing} that could not be changed here ({error})."))
    namespace.update(values)
    for name in header["deleted"]:
        namespace.pop(name, None)
    left_behind += _told(lost, header["bound"], namespace)
    changed = tuple(change.obj for change in changes)
    return Returned(tuple(values), tuple(header["deleted"]), tuple(left_behind), changed, undo=undo)


@contextmanager
def _called(argv: list[str]) -> Iterator[None]:
    """With the worker's sys.argv: a module of the user's may parse it where it is imported."""
    own = list(sys.argv)
    sys.argv[:] = argv
    try:
        yield
    finally:
        sys.argv[:] = own


def _read(
    stream: bytes, header: dict[str, Any], given: list[Any], opener: Opener
) -> tuple[Namespace, list[_Change], list[Lost]]:
    bound, first = header["bound"], 1 if header.get("anchored") else 0
    around, count = header.get("around"), first + len(bound) + header["changes"]
    found, lost = read_values(stream, count, given, opener, header["buffers"], and_one=around is not None)
    around_them = found.pop() if around is not None else None
    found, lost = found[first:], [replace(one, number=one.number - first) for one in lost if one.number < count]
    values = {name: value for name, value in zip(bound, found, strict=False) if not isinstance(value, Unavailable)}
    if around is not None and isinstance(around_them, dict):
        values[around] = around_them
    return values, [_Change(*change) for change in found[len(bound) :] if not isinstance(change, Unavailable)], lost


def _told(lost: list[Lost], bound: list[str], namespace: Namespace) -> Iterator[LeftBehind]:
    """Each thing that could not be made, by the place where one misses it."""
    visible = {name: value for name, value in namespace.items() if not name.startswith("_")}
    for one in lost[:20]:
        name = bound[one.number] if one.number < len(bound) else ""
        name, path = where(visible, one.stand_in) or (name, name or one.stand_in.thing)
        yield LeftBehind(name, path, one.why)


def restore_bytes(memory: GraphMemory, regions: Sequence[Region]) -> list[Region]:
    """Copy the worker's bytes over the kernel's where they differ; the regions where they did."""
    whole = Whole(memory, private=True)
    start = ctypes.addressof(whole.buffer)
    return [
        region
        for region in regions
        if region.writable
        and _is_in_place(region)
        and copy_differences(region.address, start + region.offset, region.nbytes)
    ]


def _is_in_place(region: Region) -> bool:
    """Whether its bytes are still where they were: not those of a tensor that was given another size meanwhile."""
    end = region.address + region.nbytes
    ours = (one.data_ptr() for one in region.keepers if hasattr(one, "data_ptr"))
    return all(region.address <= address < end for address in ours)


def parted(shipped: Namespace, now: Namespace, changed: Sequence[Any], regions: Sequence[Region]) -> Namespace:
    """What names had when they were shipped, and have no more, as far as it leads to something that changed."""
    objects = {id(obj) for obj in changed}
    spans = sorted((region.address, region.address + region.nbytes) for region in regions)

    def has_changed(obj: Any) -> bool:
        if id(obj) in objects:
            return True
        address = _address(obj)
        index = bisect_right(spans, address, key=lambda span: span[0]) - 1
        return index >= 0 and address < spans[index][1]

    return {
        name: value
        for name, value in shipped.items()
        if (name not in now or now[name] is not value)
        and not isinstance(value, (ModuleType, FunctionType, type))
        and search({name: value}, has_changed)
    }


def _address(obj: Any) -> int:
    """Where the bytes of an array or a tensor begin; -1: it has none."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    try:
        if torch is not None and isinstance(obj, torch.Tensor):
            return int(obj.data_ptr())
        if numpy is not None and isinstance(obj, numpy.ndarray):
            return int(obj.ctypes.data)
    except Exception:  # a subclass that has no bytes of its own
        return -1
    return -1
