"""Which bytes an object stands on: numbered while the graph is pickled, laid out in a Memory afterwards.

Whatever overlaps becomes one region, so an array, the tensor made from it and a slice of both still share their bytes
on the other side. Bytes that are a file's own (np.memmap) are not copied: the other side maps the same file.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .memory import PAGE, Piece

MEMORY, INPUT, FILES = 0, 1, 2  # sources of bytes: this crossing's Memory, the one that came in, files[source - FILES]
OURS = "/memfd:gpufit"  # as the system names a GraphMemory's files
# As it names memory that has no other name; not /dev/zero, as which CUDA's pinned memory may be shown.
_WITHOUT_A_FILE = ("/dev/shm/", "/memfd:", "/SYSV")
LARGE = 64 * 1024  # from here on a region has its own pages, so that it can be mapped and freed alone

Place = tuple[int, int, int]  # source, offset, nbytes


@dataclass(frozen=True)
class Region:
    """Bytes that go as one, and whoever keeps them in place until they are back."""

    address: int
    nbytes: int
    offset: int
    writable: bool
    keepers: tuple[Any, ...] = field(repr=False)


@dataclass(frozen=True)
class Foreign:
    """Bytes that are not this process's own memory (a GPU's): `write` puts them where they are to go."""

    nbytes: int
    offset: int
    write: Callable[[Any], None]


@dataclass(frozen=True)
class SpanLayout:
    """Where every number's bytes are: what is copied, and the table that is shipped."""

    table: list[Place]
    regions: list[Region]
    foreign: list[Foreign]
    files: list[tuple[str, bool]]  # path, and whether it may be written
    size: int
    mapped: list[tuple[str, Region]] = field(default_factory=list)  # what is in files that may be written
    alone: list[int] = field(default_factory=list)  # places in the table: copied, and nothing else stands on the bytes
    shared: list[tuple[int, int]] = field(default_factory=list)  # offset, nbytes: what forked processes have in common

    @property
    def pieces(self) -> list[Piece]:
        return [Piece(region.address, region.nbytes, region.offset) for region in self.regions]

    @property
    def extents(self) -> list[tuple[int, int]]:
        """The offset and length of every region, in order of offset."""
        runs: list[Region | Foreign] = [*self.regions, *self.foreign]
        return sorted((run.offset, run.nbytes) for run in runs)


@dataclass(frozen=True)
class _Span:
    number: int
    address: int
    nbytes: int
    writable: bool
    keeper: Any


class Recorder:
    """Gives numbers to runs of bytes, starting at `first`.

    `known` tells which addresses belong to the memory that came in: those bytes are there already.
    """

    def __init__(self, first: int = 0, known: Callable[[int], int | None] = lambda address: None) -> None:
        self._first, self._known = first, known
        self._numbers: dict[tuple[int, int], int] = {}
        self._spans: list[_Span] = []
        self._again: set[int] = set()
        self._foreign: dict[int, tuple[int, Callable[[Any], None]]] = {}
        self._next = first
        self.nbytes = 0  # so far, each run once; overlaps are counted twice

    def number(self, address: int, nbytes: int, keeper: Any, *, writable: bool = True) -> int:
        if not nbytes:
            return self._take()
        found = self._numbers.get((address, nbytes))
        if found is None or writable:  # a second span with the same bytes may be writable where the first was not
            self._spans.append(_Span(self._next if found is None else found, address, nbytes, writable, keeper))
        if found is None:
            found = self._numbers[address, nbytes] = self._take()
            self.nbytes += nbytes
        else:
            self._again.add(found)
        return found

    def foreign(self, nbytes: int, write: Callable[[Any], None]) -> int:
        number = self._take()
        self._foreign[number] = (nbytes, write)
        self.nbytes += nbytes
        return number

    def _take(self) -> int:
        self._next += 1
        return self._next - 1

    def lay_out(self) -> SpanLayout:
        """Merge what overlaps, and give each region its place."""
        table: list[Place] = [(MEMORY, 0, 0)] * (self._next - self._first)
        regions: list[Region] = []
        files: list[tuple[str, bool]] = []
        in_files: list[tuple[str, Region]] = []
        alone = [number - self._first for number in self._foreign]
        mappings, in_common = _mapped() if self._spans else ([], [])
        shared: list[tuple[int, int]] = []
        end = 0
        for group in _overlapping(self._spans):
            address = group[0].address
            nbytes = max(span.address + span.nbytes for span in group) - address
            known = self._known(address)
            if known is not None:
                source, offset = INPUT, known
            elif nbytes and (mapped := _file_at(mappings, address, nbytes)):
                if mapped[0] not in files:
                    files.append(mapped[0])
                source, offset = FILES + files.index(mapped[0]), mapped[1]
                if mapped[0][1]:
                    in_files.append((mapped[0][0], Region(address, nbytes, offset, True, _keepers(group))))
            else:
                is_shared = _is_in(in_common, address)
                source, offset = MEMORY, _aligned(end, LARGE if is_shared else nbytes)
                end = offset + nbytes
                if is_shared:
                    end = _aligned(end, LARGE)  # pages of its own
                    shared.append((offset, end - offset))
                writable = any(span.writable for span in group)
                regions.append(Region(address, nbytes, offset, writable, _keepers(group)))
                if len(group) == 1 and group[0].number not in self._again:
                    alone.append(group[0].number - self._first)
            for span in group:
                table[span.number - self._first] = (source, offset + span.address - address, span.nbytes)
        foreign = []
        for number, (nbytes, write) in self._foreign.items():
            offset = _aligned(end, nbytes)
            end = offset + nbytes
            foreign.append(Foreign(nbytes, offset, write))
            table[number - self._first] = (MEMORY, offset, nbytes)
        return SpanLayout(table, regions, foreign, files, end, in_files, alone, shared)


def _keepers(group: list[_Span]) -> tuple[Any, ...]:
    return tuple(span.keeper for span in group)


def _aligned(offset: int, nbytes: int) -> int:
    step = PAGE if nbytes >= LARGE else 64
    return -(-offset // step) * step


def _overlapping(spans: Sequence[_Span]) -> list[list[_Span]]:
    """Group the spans that share bytes, in order of address; neighbours that only touch stay apart."""
    groups: list[list[_Span]] = []
    end = -1
    for span in sorted(spans, key=lambda span: (span.address, -span.nbytes)):
        if span.address < end:
            groups[-1].append(span)
        else:
            groups.append([span])
        end = max(end, span.address + span.nbytes)
    return groups


@dataclass(frozen=True)
class _MappedFile:
    start: int
    end: int
    offset: int
    path: str
    writable: bool


def _mapped() -> tuple[list[_MappedFile], list[tuple[int, int]]]:
    """The files whose bytes are in this process's memory *as the file's own*, by address.

    Read from the kernel rather than from np.memmap, which its views and tensors no longer know about. And from where
    to where there is memory without a file that processes share once they are forked: of an mp.Array, say.
    """
    found, in_common = [], []
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            if "s " not in line[:80]:
                continue  # nearly all: the libraries'
            where, rights, offset, _, inode, *rest = line.rstrip("\n").split(maxsplit=5)
            path = rest[0] if rest else ""
            if rights[3] != "s" or path.startswith(OURS):
                continue
            start, end = (int(part, 16) for part in where.split("-"))
            if path.startswith(_WITHOUT_A_FILE):
                in_common.append((start, end))
            if inode == "0" or not path or path.startswith(("/dev/", "/memfd:", "/proc/")):
                continue
            try:
                is_there = os.stat(path).st_ino == int(inode)
            except OSError:
                is_there = False  # deleted: nobody else can open it
            if not is_there:
                in_common.append((start, end))
                continue
            found.append(_MappedFile(start, end, int(offset, 16), path, "w" in rights))
    return found, in_common


def _is_in(runs: list[tuple[int, int]], address: int) -> bool:
    index = bisect_right(runs, address, key=lambda run: run[0]) - 1
    return index >= 0 and address < runs[index][1]


def _file_at(mappings: list[_MappedFile], address: int, nbytes: int) -> tuple[tuple[str, bool], int] | None:
    index = bisect_right(mappings, address, key=lambda mapped: mapped.start) - 1
    if index < 0 or address + nbytes > mappings[index].end:
        return None
    mapped = mappings[index]
    return (mapped.path, mapped.writable), mapped.offset + address - mapped.start
