"""From the bytes that a graph stands on to blobs, and back.

A region of this process's memory is one blob, a storage on a device another, and so is every region of the memory that
the variables came in with; small ones go together. Where a blob is exactly one tensor of a module, it has that tensor's
name, type and shape, so that any reader of safetensors can show a model's weights.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..checkpoint.values import Blob, Changes
from ..devices import sides
from ..graph.memory import Buffer
from ..graph.opening import Whole
from ..graph.spans import Foreign, Region, SpanLayout
from .packs import extent, packs
from .users_files import Look, UsersFiles, may_have_changed

Read = Callable[[int, memoryview], None]
_TYPES = {
    **{"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32"},
    **{"int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL", "uint16": "U16", "uint32": "U32", "uint64": "U64"},
    **{"float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"},
}


@dataclass(frozen=True)
class Named:
    """A tensor of a module that is all of a storage."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    trained: bool


def names_of_tensors(roots: Mapping[str, Any]) -> dict[tuple[str, int, int], Named]:
    """The tensors of the modules among these, by device, address and length; of modules in a plain object, too."""
    found: dict[tuple[str, int, int], Named] = {}
    for path, module in _modules(roots):
        for name, tensor in _named(module):
            kind = _TYPES.get(str(tensor.dtype).removeprefix("torch."))
            if kind is None or not tensor.is_contiguous():
                continue
            try:
                storage = sides.lies(tensor.untyped_storage())
            except (NotImplementedError, RuntimeError):
                continue  # a sparse one
            if storage.nbytes() == tensor.nbytes:
                key = (str(storage.device), storage.data_ptr(), storage.nbytes())
                found.setdefault(key, Named(f"{path}.{name}", kind, tuple(tensor.shape), tensor.requires_grad))
    return found


def _named(module: Any) -> Iterator[tuple[str, Any]]:
    """By torch's own method: a class may have one that takes no options, or leaves some out (torchrl's losses)."""
    import torch

    for method in (torch.nn.Module.named_parameters, torch.nn.Module.named_buffers):
        named = method(module, remove_duplicate=False)
        with suppress(AttributeError):  # and may have another kind of table in the place of torch's (EvolveGCN)
            yield from ((name, tensor) for name, tensor in named if _has_bytes(tensor))


def _has_bytes(tensor: Any) -> bool:
    """Not one that gets its shape at the first forward."""
    import torch

    return isinstance(tensor, torch.Tensor) and not torch.nn.parameter.is_lazy(tensor)


def _modules(roots: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    import torch

    for name, value in roots.items():
        if isinstance(value, torch.nn.Module):
            yield name, value
    for name, value in roots.items():
        if not isinstance(value, torch.nn.Module | type) and isinstance(own := getattr(value, "__dict__", None), dict):
            for inner, part in list(own.items()):
                if isinstance(part, torch.nn.Module):
                    yield f"{name}.{inner}", part


@dataclass(frozen=True)
class Parts:
    """The blobs, and what restoring needs to know of them."""

    blobs: tuple[Blob, ...]
    places: list[tuple[int, int]]  # offset and length, of those that the layout placed; they come first
    inputs: list[tuple[int, int]]  # of those of the memory that came in; they come next
    mapped: list[tuple[str, int, int]]  # path, offset and length of what is a changed file's own; they come last


def gather(
    layout: SpanLayout,
    devices: Mapping[int, Any],
    whole: Whole,
    inputs: Sequence[tuple[int, int]],
    roots: Mapping[str, Any],
    since: float,
) -> Parts:
    """`devices`: the storages on devices by offset. `inputs`: the extents of the shipment in `whole`.

    Of files that are mapped, those that nobody has written to `since` have all their bytes already.
    """
    blobs = _Blobs(names_of_tensors(roots))
    runs: list[Region | Foreign] = [*layout.regions, *layout.foreign]
    runs.sort(key=lambda run: run.offset)
    shared = dict(layout.shared)  # with memory of its own there, see Loaded
    made = packs(runs, lambda run: isinstance(run, Foreign) or run.offset in shared or blobs.has_name(run))
    for pack in made:
        blobs.add_made(pack, devices)
    came = packs(_came_in(inputs, whole), blobs.has_name)
    for group in came:
        blobs.add_input(group, whole)
    changed = {path for path in {path for path, _ in layout.mapped} if may_have_changed(path, since)}
    in_files = [(path, region) for path, region in layout.mapped if path in changed]
    for _, region in in_files:
        blobs.add(region.address, region.nbytes, None, region, changes="seldom")
    mapped = [(path, region.offset, region.nbytes) for path, region in in_files]
    return Parts(tuple(blobs.found), [*map(extent, made)], [*map(extent, came)], mapped)


def _came_in(inputs: Sequence[tuple[int, int]], whole: Whole) -> Iterator[Region]:
    for offset, nbytes in inputs:
        yield Region(whole.address_of(offset), nbytes, offset, True, ())


def _each(regions: Sequence[Any], start: int) -> Callable[[memoryview], None]:
    """What copies them one by one, each to its place from `start`, and nought between them."""

    def write(view: memoryview) -> None:
        to = ctypes.addressof((ctypes.c_char * len(view)).from_buffer(view))
        ctypes.memset(to, 0, len(view))
        for region in regions:
            ctypes.memmove(to + region.offset - start, region.address, region.nbytes)

    return write


class _Blobs:
    def __init__(self, named: Mapping[tuple[str, int, int], Named]) -> None:
        self.found: list[Blob] = []
        self._named = named
        self._taken: set[str] = set()

    def has_name(self, run: Region) -> bool:
        return ("cpu", run.address, run.nbytes) in self._named

    def add_made(self, pack: Sequence[Region | Foreign], devices: Mapping[int, Any]) -> None:
        """What the cell has made; only regions go together."""
        match pack:
            case [Region() as run]:
                self.add(run.address, run.nbytes, self._named.get(("cpu", run.address, run.nbytes)), run)
            case [Foreign() as run]:
                storage = devices[run.offset]
                key = (str(storage.device), storage.data_ptr(), storage.nbytes())
                self.add(None, run.nbytes, self._named.get(key), storage, run.write)
            case _:
                offset, nbytes = extent(pack)
                self.add(None, nbytes, None, pack, _each(pack, offset))

    def add_input(self, group: Sequence[Region], whole: Whole) -> None:
        offset, nbytes = extent(group)
        if len(group) == 1:
            known = self._named.get(("cpu", group[0].address, nbytes))
            changes: Changes = "often" if known and known.trained else "seldom"
            self.add(group[0].address, nbytes, known, whole, changes=changes)
            return
        for run in group:
            whole.put_back(run.offset)
        self.add(whole.address + offset, nbytes, None, whole, changes="seldom")

    def add(
        self,
        address: int | None,
        nbytes: int,
        named: Named | None,
        keeper: Any,
        write: Callable[[Any], None] | None = None,
        changes: Changes = "often",
    ) -> None:
        if named is None or named.name in self._taken:
            named = Named(f"s{len(self.found)}", "U8", (nbytes,), False)
        self._taken.add(named.name)
        copy = _copier(address, nbytes, keeper) if address is not None else write
        assert copy is not None
        self.found.append(Blob(named.name, named.dtype, named.shape, nbytes, copy, address, changes))


def _copier(address: int, nbytes: int, keeper: Any) -> Callable[[memoryview], None]:
    def write(view: memoryview, _keeper: Any = keeper) -> None:
        ctypes.memmove((ctypes.c_char * nbytes).from_buffer(view), address, nbytes)

    return write


# Back ----------------------------------------------------------------------------------------------------------------


class Loaded:
    """Where a restored graph finds its bytes: each blob in memory of its own, which torch made and can resize."""

    def __init__(
        self, places: Sequence[tuple[int, int]], passing: Container[int], shared: Container[int], read: Read
    ) -> None:
        """The offsets of what goes on to a device and is not kept here, and of what forked processes have in common."""
        self._places, self._passing, self._shared, self._read = list(places), passing, shared, read
        self._buffers: dict[int, Buffer] = {}

    def locate(self, offset: int, nbytes: int) -> tuple[Buffer, int]:
        index = bisect_right(self._places, offset, key=lambda place: place[0]) - 1
        start, length = self._places[index]
        if start in self._passing:
            return self._load(index, length), 0
        if index not in self._buffers:
            self._buffers[index] = self._load(index, length, start in self._shared)
        return self._buffers[index], offset - start

    def _load(self, index: int, nbytes: int, shared: bool = False) -> Buffer:
        import torch

        from ..graph.kinds.storages import new_shared

        storage = new_shared(nbytes) if shared else torch.UntypedStorage(nbytes)
        buffer: Buffer = (ctypes.c_char * nbytes).from_address(storage.data_ptr())
        buffer.storage = storage
        self._read(index, memoryview(buffer).cast("B"))
        return buffer


def fill_input(whole: Whole, first: int, extents: Sequence[tuple[int, int]], read: Read) -> None:
    view = memoryview(whole.buffer).cast("B")
    for number, (offset, nbytes) in enumerate(extents):
        if nbytes:
            read(first + number, view[offset : offset + nbytes])


def fill_files(
    first: int, mapped: Sequence[tuple[str, int, int]], read: Read, looks: Mapping[str, Look], files: UsersFiles
) -> None:
    """What stood in files that the training writes to through its memory."""
    files.look_again(looks, {path for path, _, _ in mapped})
    for number, (path, offset, nbytes) in enumerate(mapped):
        found = bytearray(nbytes)
        read(first + number, memoryview(found))
        files.put_back(path, offset, found, looks[path])
