"""The journal: every output and state of a job, numbered, in a file that outlives kernel and worker.

Two generations bound it: when `journal.jsonl` passes half the limit it becomes `journal.1.jsonl`, and the one before
goes. One worker writes; any number of fronts follow, each at its own pace, so a slow reader never holds up a training.
"""

from __future__ import annotations

import errno
import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO

from ..system.files import for_its_owner
from ..system.foreign import parsed_record
from ..units import format_bytes
from .events import Entry, Event, Failure, Gap, Note, Result, StateChange, decode_entry, encode_entry

RESERVE = 64 << 10  # bytes kept back, so that a job's end can still be written on a full disk
LEAST = 4 << 10  # bytes: what an end takes
KEPT = 64 << 10  # bytes of what must not be missed, kept for whoever asks while the disk refuses it
CHUNK = 4 << 20  # bytes read at a time
NEAR = 64 << 10  # bytes; a reader that begins in the middle skips less than this


def older(path: Path) -> Path:
    """The generation before."""
    return path.with_suffix(".1.jsonl")


class Journal:
    """The writer's side; safe to call from any thread."""

    def __init__(self, path: Path, limit: int) -> None:
        self._path = path
        self._half = limit // 2
        self._guard = threading.Lock()
        self._lost = 0
        self._lost_why = ""
        self._kept: list[Event] = []  # of those that were lost, what tells how the job went
        self.seq = last_seq(path)
        self._reserve = path.with_name("journal.reserve")
        self._file = self._open()
        self._reserved = self._set_reserve()  # bytes

    def append(self, events: Sequence[Event]) -> None:
        """Write the events; when the disk refuses, count them and say so as soon as it accepts again."""
        with self._guard:
            for event in events:
                self._append(event)

    def append_final(self, event: Event) -> bool:
        """Write what nobody may miss, if need be into the space kept back for it, and push it to the disk.

        False: the disk refuses it. It may be tried again.
        """
        self.give_up_reserve()
        with self._guard:
            if not self._write([*self._missed(), event]):
                return False
            self._lost, self._kept = 0, []
            with suppress(OSError):  # a file system that cannot: the entry is in the page cache, which survives us
                os.fsync(self._file.fileno())
            return True

    def unwritten(self, event: Event) -> list[bytes]:
        """What `append_final` of this event would write, for those who cannot wait until there is room."""
        with self._guard:
            return self._lines([*self._missed(), event])

    def give_up_reserve(self) -> None:
        """Free the space kept back: the job is ending."""
        with suppress(OSError):
            self._reserve.unlink(missing_ok=True)

    @property
    def short(self) -> str:
        """What to say of a disk that had no room to keep back; empty: all is well."""
        if self._reserved == RESERVE:
            return ""
        return (
            f"The disk of {self._path.parent} is nearly full: {format_bytes(self._reserved)} of the"
            f" {format_bytes(RESERVE)} for this job's last words could be set aside. Output may be missing, and"
            " checkpoints may fail; the variables come back to a notebook that waits for them all the same. To make"
            " room: gpufit clean"
        )

    def close(self) -> None:
        with self._guard:
            self._file.close()
            self.give_up_reserve()

    def _append(self, event: Event) -> None:
        # The gap goes with the event that ends it: alone it would fit into the last bytes of a full disk, each time.
        if not self._write([*self._missed(), event]):
            self._lose(event)
            return
        self._lost, self._kept = 0, []
        if self._size > self._half:
            self._turn()

    def _lose(self, event: Event) -> None:
        self._lost += 1
        if isinstance(event, Failure | Result | Note | StateChange):
            self._kept.append(event)
            while sum(map(len, self._lines(self._kept))) > KEPT:
                del self._kept[0]

    def _missed(self) -> list[Event]:
        """What stands for the events that could not be written, and those of them that are kept."""
        gone = self._lost - len(self._kept)
        return [*([Gap(gone, self._lost_why)] if gone else []), *self._kept]

    def _lines(self, events: Sequence[Event]) -> list[bytes]:
        now = time.time()
        return [encode_entry(Entry(at, now, event)) for at, event in enumerate(events, self.seq + 1)]

    def _write(self, events: Sequence[Event]) -> bool:
        lines = b"".join(self._lines(events))
        try:
            self._write_whole(lines)
        except OSError as error:
            self._lost_why = error.strerror or str(error)
            with suppress(OSError):  # a disk that takes nothing at all has taken no half line, either
                # Half a line may stand at the end: cut it off, or it would spoil the next one.
                os.ftruncate(self._file.fileno(), self._size)
            return False
        self.seq += len(events)
        self._size += len(lines)
        return True

    def _write_whole(self, line: bytes) -> None:
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(self._file.fileno(), rest) :]

    def _turn(self) -> None:
        try:
            if self._path.exists():  # else it was renamed by a turn for which the next could not be opened
                os.replace(self._path, older(self._path))
            following = self._open()
        except OSError:  # no descriptor is free, say: this one goes on until there is one
            return
        self._file.close()
        self._file = following

    def _open(self) -> BinaryIO:
        with ExitStack() as unless_it_opens:
            file = unless_it_opens.enter_context(open(self._path, "ab", buffering=0, opener=for_its_owner))
            size = _end_of_last_line(self._path)
            os.ftruncate(file.fileno(), size)
            unless_it_opens.pop_all()
        self._size = size
        return file

    def _set_reserve(self) -> int:
        """Keep back what there is; how many bytes."""
        room = RESERVE
        while room >= LEAST:
            try:
                with open(self._reserve, "wb", opener=for_its_owner) as file:
                    os.posix_fallocate(file.fileno(), 0, room)
                    return room
            except OSError:
                room //= 2
        self.give_up_reserve()
        return 0


class JournalReader:
    """Reads a journal from any number on, across the turn of a generation."""

    def __init__(self, path: Path, after: int = 0, only: frozenset[str] = frozenset()) -> None:
        """`only`: kinds of events; the others are passed over quickly; none: all, and the gaps between them."""
        self._path = path
        self.after = after
        self._wanted = _lines_of(only) if only else None
        self._file: BinaryIO | None = None

    def read(self) -> Iterator[Entry]:
        """What has been written since the last call."""
        for entry in self._entries():
            if entry.seq <= self.after:
                continue
            if entry.seq > self.after + 1 and not isinstance(entry.event, Gap) and self._wanted is None:
                missed = entry.seq - self.after - 1
                yield Entry(entry.seq - 1, entry.time, Gap(missed, "the journal keeps only the latest output"))
            self.after = entry.seq
            yield entry

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _entries(self) -> Iterator[Entry]:
        if self._file is None and not self._open_oldest():
            return
        while True:
            yield from self._lines()
            if not self._next_generation():
                return

    def _lines(self) -> Iterator[Entry]:
        assert self._file is not None
        rest = b""
        while data := self._file.read(CHUNK):
            whole, end, rest = (rest + data).rpartition(b"\n")
            for line in whole.split(b"\n") if self._wanted is None else self._wanted.findall(whole + end):
                entry = decoded(line)
                if entry is not None:
                    yield entry
            if self._wanted is not None:  # behind all that was passed over
                self.after = max(self.after, _seq(whole[whole.rfind(b"\n") + 1 :]))
        # Read an unfinished line again next time, rather than keep it: on a full disk its writer takes it back.
        self._file.seek(-len(rest), os.SEEK_CUR)

    def _open_oldest(self) -> bool:
        """Open the generation in which the next entry is, or was, and go to about where it stands."""
        self._file = _opened(older(self._path)) or _opened(self._path)
        if self._file is None:
            return False
        if self.after:
            newest = _opened(self._path)
            if newest is not None and 0 < _first_seq(newest) <= self.after + 1:
                self._file.close()
                self._file, newest = newest, None
            if newest is not None:
                newest.close()
            _go_near(self._file, self.after)
        return True

    def _next_generation(self) -> bool:
        """Go on with the next file when ours has been renamed away and is read to its end."""
        assert self._file is not None
        ours = os.fstat(self._file.fileno())
        generations = [file for file in (_opened(older(self._path)), _opened(self._path)) if file is not None]
        same = [os.path.samestat(os.fstat(file.fileno()), ours) for file in generations]
        later = generations[same.index(True) + 1 :] if True in same else generations
        for file in generations:
            if file not in later[:1]:
                file.close()
        if not later:
            return False
        unread = self._file.read()
        if b"\n" in unread:  # written between our last read and the turn
            self._file.seek(-len(unread), os.SEEK_CUR)
            later[0].close()
        else:
            self._file.close()
            self._file = later[0]
        return True


def _lines_of(kinds: frozenset[str]) -> re.Pattern[bytes]:
    """The lines of these kinds, by their first bytes as encode_entry writes them: to decode a million takes seconds."""
    names = "|".join(sorted(kinds)).encode()
    return re.compile(rb'^\{"seq":[0-9]+,"time":[0-9.]+,"kind":"(?:' + names + rb')".*$', re.MULTILINE)


def _first_seq(file: BinaryIO) -> int:
    """The number of the first entry; 0 when there is none yet. The file is at its begin again."""
    line = file.readline()
    file.seek(0)
    return _seq(line)


def _seq(line: bytes) -> int:
    try:
        return int(parsed_record(line)["seq"])
    except (ValueError, KeyError, TypeError):
        return 0


def _go_near(file: BinaryIO, after: int) -> None:
    """Go to the begin of a line before or at the entry that follows `after`: entries stand in their order."""
    low, high = 0, file.seek(0, os.SEEK_END)
    while high - low > NEAR:
        middle = (low + high) // 2
        file.seek(middle)
        file.readline()  # the rest of the line that we are in
        start = file.tell()
        seq = _seq(file.readline())
        if start >= high or not seq or seq > after + 1:
            high = middle
        else:
            low = start
    file.seek(low)


def _opened(path: Path) -> BinaryIO | None:
    try:
        return open(path, "rb", opener=for_its_owner)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EINVAL):  # EINVAL: something else has its name
            raise
        return None


def decoded(line: bytes) -> Entry | None:
    """The entry of a line; None for what cannot be read."""
    try:
        return decode_entry(line)
    except (ValueError, KeyError, TypeError):
        return None  # torn by a kill; the next writer cuts it off


def _end_of_last_line(path: Path) -> int:
    with open(path, "rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - (64 << 10))
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
        return 0


def last_seq(path: Path) -> int:
    """The number of the last entry that was written; 0 when there is none."""
    for generation in (path, older(path)):
        if (file := _opened(generation)) is not None:
            with file:
                if seq := _last_seq_in(file):
                    return seq
    return 0


def _last_seq_in(file: BinaryIO) -> int:
    """The same of one generation; read from its end, since a kernel that waits for it shows nothing meanwhile."""
    end, length = file.seek(0, os.SEEK_END), NEAR
    while True:
        start = max(0, end - length)
        file.seek(start)
        lines = file.read(end - start).split(b"\n")[:-1]  # what comes after the last line's end was torn by a kill
        for line in reversed(lines if start == 0 else lines[1:]):
            if seq := _seq(line):
                return seq
        if start == 0:
            return 0
        length *= 4  # a line may be long: a picture, say
