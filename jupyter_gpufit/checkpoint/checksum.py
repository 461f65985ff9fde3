"""Checksums of bytes, in pieces so that several threads can sum one file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import xxhash

from ..units import MiB

PIECE = 16 * MiB  # bytes; part of the format

# XXH3-128 and not SHA-256: it finds what disks and crashes do, seven times as fast. It does not tell who wrote the
# bytes, which SHA-256 would not either; `job.check_trusted` does.


def digest(piece: bytes | memoryview) -> bytes:
    """Of one piece."""
    return xxhash.xxh3_128(piece).digest()


def joined(digests: Iterable[bytes]) -> str:
    """The checksum of bytes from their pieces' digests."""
    return xxhash.xxh3_128(b"".join(digests)).hexdigest()


def checksum(data: bytes | memoryview) -> str:
    """Of all these bytes."""
    view = memoryview(data)
    return joined(digest(view[at : at + PIECE]) for at in range(0, len(view), PIECE))


@dataclass(frozen=True)
class Section:
    """A part of a file that has a checksum of its own: its head, or a blob."""

    at: int
    nbytes: int


@dataclass
class Run:
    """Bytes of a file that one thread reads or writes at once, with the pieces in it."""

    start: int
    end: int
    pieces: list[tuple[int, int, int]] = field(default_factory=list)  # (which section, its begin in the file, its end)


def runs(sections: Sequence[Section]) -> Iterator[Run]:
    """Cut sections, which lie one behind the other, into runs of about PIECE: small blobs share one."""
    run: Run | None = None
    for number, section in enumerate(sections):
        for start in range(section.at, section.at + section.nbytes, PIECE):
            end = min(start + PIECE, section.at + section.nbytes)
            if run is not None and (run.end != start or end - run.start > PIECE):
                yield run
                run = None
            if run is None:
                run = Run(start, start)
            run.end = end
            run.pieces.append((number, start, end))
    if run is not None:
        yield run


class Sums:
    """Collects digests, which threads find in any order."""

    def __init__(self, sections: Sequence[Section]) -> None:
        self._found: list[list[bytes]] = [[b""] * -(-section.nbytes // PIECE) for section in sections]
        self._sections = sections

    def take(self, run: Run, data: memoryview) -> None:
        """Sum the pieces of a run, of which `data` are the bytes."""
        for number, start, end in run.pieces:
            place = (start - self._sections[number].at) // PIECE
            self._found[number][place] = digest(data[start - run.start : end - run.start])

    def of(self, number: int) -> str:
        return joined(self._found[number])
