"""The other end of `spans`: from a number in the graph to bytes that an array or a tensor can stand on."""

from __future__ import annotations

import ctypes
import mmap
from bisect import bisect_right, insort
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .memory import Buffer, GraphMemory, share_with_children
from .spans import FILES, INPUT, LARGE, MEMORY, Place, Region


class ByteSource(Protocol):
    def locate(self, offset: int, nbytes: int) -> tuple[Buffer, int]:
        """A buffer that holds these bytes, and where in it they start."""


@dataclass(frozen=True)
class _Moved:
    """Bytes that have memory of their own."""

    address: int
    offset: int  # where in the mapping they came
    storage: Any

    @property
    def still_there(self) -> bool:
        return bool(self.storage.data_ptr() == self.address)


class Whole:
    """All of a Memory in one mapping: for a worker, and for a kernel that opens the input again.

    A storage that may change its size cannot stand on a mapping: its bytes are moved out, and count as if they were in.
    """

    def __init__(self, memory: GraphMemory, *, private: bool = False) -> None:
        self.buffer = memory.map(0, memory.size, private=private)
        self.address = ctypes.addressof(self.buffer)
        self.size = memory.size
        self.shared: Sequence[tuple[int, int]] = ()  # offset and bytes of what forked processes have in common
        self._moved: list[_Moved] = []  # by address
        self._by_offset: dict[int, _Moved] = {}

    def share(self, runs: Sequence[tuple[int, int]]) -> None:
        """Have these in common with processes that this one forks."""
        self.shared = runs
        share_with_children(self.buffer, runs)

    def locate(self, offset: int, nbytes: int) -> tuple[Buffer, int]:
        return self.buffer, offset

    def offset_of(self, address: int) -> int | None:
        inside = address - self.address
        if 0 <= inside < self.size:
            return inside
        index = bisect_right(self._moved, address, key=lambda one: one.address) - 1
        if index < 0 or not (one := self._moved[index]).still_there:
            return None
        inside = address - one.address
        return one.offset + inside if inside < one.storage.nbytes() else None

    def address_of(self, offset: int) -> int:
        """Where the bytes are that came at the beginning of an extent."""
        one = self._by_offset.get(offset)
        return one.address if one is not None and one.still_there else self.address + offset

    def has_moved(self, offset: int, storage: Any) -> None:
        one = _Moved(storage.data_ptr(), offset, storage)
        insort(self._moved, one, key=lambda one: one.address)
        self._by_offset[offset] = one

    def put_back(self, offset: int | None = None) -> None:
        """Into the mapping, what has moved from there: for whoever reads all of it. By default, all that has."""
        for one in self._moved if offset is None else filter(None, [self._by_offset.get(offset)]):
            if one.still_there:
                ctypes.memmove(self.address + one.offset, one.address, one.storage.nbytes())


class Adopted:
    """A Memory whose regions are mapped one by one: for a kernel, where they stay for as long as they are used.

    A small region is copied out, lest one number keep the whole memory; a large one frees its bytes when it goes.
    """

    def __init__(self, memory: GraphMemory, header: Mapping[str, Any], *, private: bool) -> None:
        self._memory, self._extents, self._private = memory, header["extents"], private
        self._shared = dict(header.get("shared", ()))  # offset and bytes of what forked processes have in common
        self._mapped: dict[int, Buffer] = {}

    def locate(self, offset: int, nbytes: int) -> tuple[Buffer, int]:
        index = bisect_right(self._extents, offset, key=lambda extent: extent[0]) - 1
        start, length = self._extents[index]
        if index not in self._mapped:
            self._mapped[index] = self._take(start, length)
        return self._mapped[index], offset - start

    def _take(self, start: int, length: int) -> Buffer:
        if start in self._shared:
            pages = self._shared[start]
            buffer = self._of_its_own(start, pages) if self._private else self._memory.map(start, pages)
            share_with_children(buffer, [(0, pages)])
            return buffer
        if length < LARGE:
            return self._memory.read(start, length)
        return self._memory.map(start, length, private=self._private, give_back=not self._private)

    def _of_its_own(self, start: int, nbytes: int) -> Buffer:
        """A copy: what is written to it must not come to the file."""
        memory = GraphMemory.create(nbytes)
        buffer = memory.map(0, nbytes)
        memoryview(buffer).cast("B")[:] = self._memory.read(start, nbytes)
        return buffer


class Original:
    """The kernel's own memory, addressed as the worker saw it."""

    def __init__(self, regions: Sequence[Region]) -> None:
        self._regions = sorted(regions, key=lambda region: region.offset)

    def locate(self, offset: int, nbytes: int) -> tuple[Buffer, int]:
        index = bisect_right(self._regions, offset, key=lambda region: region.offset) - 1
        region = self._regions[index]
        buffer: Buffer = (ctypes.c_char * region.nbytes).from_address(region.address)
        buffer.keeper = region.keepers
        return buffer, offset - region.offset


class File:
    """A file that both sides map. One that is read only is mapped for private writing, so that no write can crash."""

    def __init__(self, path: str, writable: bool) -> None:
        with open(path, "r+b" if writable else "rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_WRITE if writable else mmap.ACCESS_COPY)

    def locate(self, offset: int, nbytes: int) -> tuple[Buffer, int]:
        return self._map, offset


class Opener:
    """What the objects of a graph find their bytes through; a reply's numbers follow the input's."""

    def __init__(self) -> None:
        self._table: list[Place] = []
        self._alone: set[int] = set()
        self._sources: list[ByteSource] = []
        self._bases: list[int] = []

    def __len__(self) -> int:
        return len(self._table)

    def extend(
        self,
        table: Sequence[Place],
        files: Sequence[tuple[str, bool]],
        memory: ByteSource,
        came_in: ByteSource | None = None,
        *,
        alone: Collection[int] = (),
    ) -> None:
        """Add a crossing's table; `came_in` is where the bytes of its INPUT are."""
        self._alone |= {len(self._table) + index for index in alone}
        sources = {MEMORY: memory, INPUT: came_in}
        sources |= {FILES + number: File(*file) for number, file in enumerate(files)}
        keys = {}
        for key, source in sources.items():
            if source is not None:
                keys[key] = len(self._sources)
                self._sources.append(source)
        self._table += [(keys[source], offset, nbytes) for source, offset, nbytes in table]

    def place(self, number: int) -> tuple[Buffer, int, int]:
        """A buffer, the offset in it and the number of bytes."""
        source, offset, nbytes = self._table[number]
        if not nbytes:
            return bytearray(1), 0, 0
        return *self._sources[source].locate(offset, nbytes), nbytes

    def stands_alone(self, number: int) -> bool:
        """Whether nothing else stands on these bytes."""
        return number in self._alone

    def has_moved(self, number: int, storage: Any) -> None:
        """These bytes, of those that came in, are a storage's own now."""
        source, offset, _ = self._table[number]
        if isinstance(whole := self._sources[source], Whole):
            whole.has_moved(offset, storage)

    def came_in(self, number: int) -> bool:
        """Whether these bytes are in the memory that came to a worker."""
        return isinstance(self._sources[self._table[number][0]], Whole)

    def view(self, number: int) -> Any:
        buffer, offset, nbytes = self.place(number)
        return memoryview(buffer).cast("B")[offset : offset + nbytes]
