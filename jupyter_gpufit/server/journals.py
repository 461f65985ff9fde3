"""A job's journal in stretches, for a browser: bounded in number and size, from any entry on. For threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..jobs import journal
from ..jobs.events import Entry as Written
from ..jobs.events import StateChange
from ..jobs.paths import JobPaths
from ..jobs.record import read_record
from ..jobs.state import OVER
from .wire import WireEntry, WireJournal, entry_of

MOST_ENTRIES = 1000  # in one stretch
LARGEST = 1 << 20  # characters in one stretch, unless a single entry has more


@dataclass
class Following:
    """Somebody's place in a job's journal. For one thread at a time."""

    paths: JobPaths
    after: int = 0  # -1000: the last thousand
    more: bool = False  # the last stretch was cut short
    _reader: journal.JournalReader | None = None
    _unread: Iterator[Written] = field(default_factory=lambda: iter(()))

    def read(self, limit: int = MOST_ENTRIES, *, lives: bool = False) -> WireJournal:
        """The next stretch; empty when there is nothing new.

        `lives`: a moment ago its worker lived. Whether it has ended is then only looked at where something says so.
        """
        if self._reader is None:
            self._begin()
        limit = min(limit, MOST_ENTRIES)
        entries = self._take(limit) if lives else []
        if entries and not any(entry.event["kind"] == StateChange.kind for entry in entries):
            return WireJournal(entries=tuple(entries), next=self.after, ended=False)
        # Before the look into the journal: a worker that is gone by now has written all it ever will.
        silent = read_record(self.paths).state in OVER
        entries += self._take(limit - len(entries))
        return WireJournal(entries=tuple(entries), next=self.after, ended=silent and not self.more)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def _begin(self) -> None:
        if self.after < 0:
            self.after = max(0, journal.last_seq(self.paths.journal) + self.after)
        self._reader = journal.JournalReader(self.paths.journal, self.after)

    def _take(self, limit: int) -> list[WireEntry]:
        assert self._reader is not None
        entries: list[WireEntry] = []
        size = 0
        self.more = True
        while len(entries) < limit and size < LARGEST:
            found = next(self._unread, None)
            if found is None:
                self._unread = self._reader.read()
                found = next(self._unread, None)
            if found is None:
                self.more = False
                break
            entries.append(entry_of(found))
            size += _size(found)
            self.after = found.seq
        return entries


def read_stretch(paths: JobPaths, after: int, limit: int) -> WireJournal:
    """One stretch, for somebody who asks once."""
    following = Following(paths, after)
    try:
        return following.read(limit)
    finally:
        following.close()


def _size(entry: Written) -> int:
    """About how many characters it takes: those of its texts, since all else is small."""
    return sum(_length(value) for value in vars(entry.event).values())


def _length(value: object) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(_length(one) for one in value.values())
    if isinstance(value, list | tuple):
        return sum(_length(one) for one in value)
    return 8
