"""The lab's files, read without trust: what counts is what its owner holds the lock of.

Whatever happens on one file is a fact about that file: it is strange, its owner is named, and it is passed over. Only a
claim is more than that, since its devices are in use: held and not to be read, it takes what its name has the marks of.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from .entry import NAME, READ, LedgerEntry, is_exhausted, is_ours, marks_of, read_entry
from .locks import KeptOpen, Lock, LockList, lock_on
from .owner import held_by_owner, pid_view, started, uid_of
from .record import MOST_CLAIMS, Claim, Request, Ticket, UnreadHold

_Key = tuple[str, int]  # name and inode
MOST_TICKETS = 500  # of one user, that count
MOST_OPEN = 32  # claims that stay open, of as many as there may be
LOOKS = 3  # at a lab in which claims end while it is read


@dataclass(frozen=True, order=True)
class Strange:
    """A file that none of us would leave there: what nobody can read, and somebody keeps."""

    name: str
    uid: int  # whose it is; the kernel's word
    why: str


@dataclass(frozen=True)
class LedgerLook:
    """What counts in the lab at one moment, oldest first."""

    tickets: tuple[Ticket, ...] = ()
    claims: tuple[Claim, ...] = ()
    changed: float = 0.0  # seconds since 1970: when the directory last changed, the same for everybody who looks
    strange: tuple[Strange, ...] = ()


@dataclass
class LedgerReader:
    """Reads a lab again and again, and remembers what cannot change."""

    lab: Path
    keeps_open: bool = False  # claims, for who waits: many wake up at each end of one. No mount can go meanwhile.
    _dead: set[_Key] = field(default_factory=set)  # what is dead stays dead
    _known: dict[_Key, LedgerEntry] = field(default_factory=dict)
    _gone: bool = False  # a claim ended between the listing and the look at it
    _held: dict[_Key, tuple[Claim, KeptOpen]] = field(default_factory=dict)  # the claims of the last look
    _there: set[_Key] = field(default_factory=set)  # what was listed then

    def read(self) -> LedgerLook:
        """What counts now. A claim that ended meanwhile may have been replaced, by one that was not listed yet."""
        for _ in range(LOOKS):
            self._gone = False
            look = self._read()
            if not self._gone:
                break
        return look

    def _read(self) -> LedgerLook:
        changed = os.stat(self.lab).st_mtime_ns / 1e9
        tickets: list[Ticket] = []
        claims: list[Claim] = []
        strange: list[Strange] = []
        known, locks = {}, LockList()
        holding: dict[_Key, tuple[Claim, KeptOpen]] = {}
        for key, sight in self._sights():
            held = _held(key[0], sight, locks)
            if held and sight.entry is not None:
                known[key] = sight.entry
                value = sight.entry.value(key[0], sight.found)
                if isinstance(value, Claim):
                    _, kept = self._held.get(key) or (None, None)
                    path, may = f"{self.lab}/{key[0]}", self.keeps_open and len(holding) < MOST_OPEN
                    holding[key] = value, kept or KeptOpen(path, sight.found, may_open=may)
                else:
                    tickets.append(value)
                continue
            if held and (claim := _unread_claim(key[0], sight.found, locks)) is not None:
                claims.append(claim)
            if held or (sight.lock == "unseen" and sight.entry is None):
                strange.append(Strange(key[0], sight.found.st_uid, sight.why))
            elif sight.lock != "unseen":
                self._dead.add(key)
        self._known = known
        listed = {inode for _, inode in self._there}  # what has a name is another file: an inode is used again
        for key in self._held.keys() - holding.keys():
            # Its holder unlocks a claim before it takes the name away: somebody else took it, and it is held.
            if key not in self._dead and key[1] not in listed and self._held[key][1].write_locked(locks):
                holding[key] = self._held[key]
        self._held = holding
        claims += [claim for claim, _ in holding.values()]
        tickets, too_many = _bounded(sorted(tickets, key=_age))
        claims, merged = _merged(sorted(claims, key=_age))
        return LedgerLook(tuple(tickets), tuple(claims), changed, tuple(sorted(strange + too_many + merged)))

    def _sights(self) -> Iterator[tuple[_Key, _Sight]]:
        """The files that may count."""
        with os.scandir(self.lab) as entries:
            there = {(entry.name, entry.inode()) for entry in entries}
        self._dead &= there
        self._there = there
        seen = set()  # a hard link would show one file twice
        for key in sorted(there - self._dead):
            if key[1] not in seen and (key in self._known or NAME.fullmatch(key[0])):
                sight = self._look(key)
                if sight is not None:
                    seen.add(key[1])
                    yield key, sight
                elif key[0].startswith("c."):
                    self._gone = True

    def _look(self, key: _Key) -> _Sight | None:
        try:
            fd = os.open(f"{self.lab}/{key[0]}", READ)
        except OSError as error:
            if is_exhausted(error):
                raise  # not to know is not the same as free
            return self._look_from_outside(key, error)
        try:
            found = os.fstat(fd)
            lock = lock_on(fd) if key in self._known or is_ours(key[0], found) else "none"
            if lock == "none":
                self._dead.add(key)
                return None
            if key in self._known:
                return _Sight(found, lock, self._known[key])
            if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return _Sight(found, lock, None, "can be written to by others")
            entry = read_entry(key[0], fd)
            return _Sight(found, lock, entry, "" if entry else "is held and says nothing we can read")
        finally:
            os.close(fd)

    def _look_from_outside(self, key: _Key, error: OSError) -> _Sight | None:
        """A file that cannot be opened: without permission, under a lease, or nothing that one of us made."""
        try:
            found = os.lstat(f"{self.lab}/{key[0]}")
        except OSError:
            return None
        if is_ours(key[0], found):
            return _Sight(found, "unseen", self._known.get(key), f"cannot be opened ({error.strerror})")
        self._dead.add(key)
        return None


def _bounded(tickets: list[Ticket]) -> tuple[list[Ticket], list[Strange]]:
    """Each user's first ones; whoever enters thousands must not make everybody reckon with them."""
    kept, more, count = [], [], Counter[int]()
    for ticket in tickets:
        count[ticket.uid] += 1
        if count[ticket.uid] <= MOST_TICKETS:
            kept.append(ticket)
        else:
            more.append(Strange(ticket.id, ticket.uid, f"is more than the {MOST_TICKETS} tickets that count"))
    return kept, more


def _merged(claims: list[Claim]) -> tuple[list[Claim], list[Strange]]:
    """Each user's first ones, and one in the place of all others: it has the whole of their devices.

    Who waits for room of theirs must not reckon with thousands; and to be too many makes no claim free.
    """
    kept, strange, marks, count = [], [], dict[str, int](), Counter[int]()
    first: dict[int, Claim] = {}  # of those that are too many
    for claim in claims:
        count[claim.uid] += 1
        if count[claim.uid] <= MOST_CLAIMS:
            kept.append(claim)
            continue
        id = first.setdefault(claim.uid, claim).id
        marks[id] = marks.get(id, 0) | marks_of(claim.hold)
        strange.append(Strange(claim.id, claim.uid, f"is more than the {MOST_CLAIMS} claims that count"))
    kept += [_whole(claim, marks[claim.id], f"claims beyond {MOST_CLAIMS}") for claim in first.values()]
    return sorted(kept, key=_age), strange


def _whole(claim: Ticket, marks: int, called: str) -> Claim:
    hold = UnreadHold(devices=(), bytes=0, alone=True, share=float(marks.bit_count()), marks=marks)
    return Claim(**vars(claim) | {"request": Request(job_id="", name=called), "hold": hold})


@dataclass(frozen=True)
class _Sight:
    """A file that may count, at one look."""

    found: os.stat_result
    lock: Lock | Literal["unseen"]
    entry: LedgerEntry | None  # None: it says nothing that we can read
    why: str = ""  # what is strange about it


def _held(name: str, sight: _Sight, locks: LockList) -> bool:
    """Does its owner hold it?"""
    found, writer = sight.found, sight.entry.writer if sight.entry is not None else None
    inode = found.st_dev, found.st_ino
    if sight.lock == "write":
        return True
    if sight.lock == "unseen":
        if writer is None and name[0] == "q":
            return False  # it has no place in the queue, held or not
        if locks.write_locked(inode):
            return True
        if inode not in locks.flocks:
            return False
    if writer is None:
        return not (pids := locks.flocks.get(inode)) or any(uid_of(pid) in (found.st_uid, None) for pid in pids)
    if writer.write_lock:
        return False  # a stranger's flock, to keep it
    if uid_of(writer.pid) == found.st_uid and started(writer.pid) == writer.start_time:
        return True  # the usual case
    return held_by_owner(writer, found.st_uid, locks.flocks.get(inode, []), view=pid_view())


def _unread_claim(name: str, found: os.stat_result, locks: LockList) -> Claim | None:
    """What a claim takes that is held, and that nobody can read: the whole of the devices that its name speaks of."""
    match = NAME.fullmatch(name)
    assert match is not None
    marks = int(match[3][8:], 16) if match[1] == "c" else 0
    if not marks:
        return None
    pids = locks.flocks.get((found.st_dev, found.st_ino), [])
    held = Ticket(
        id=name,
        uid=found.st_uid,
        since=found.st_ctime_ns,
        tie=found.st_ino,
        pid=pids[0] if pids else 0,
        request=Request(job_id="", name=""),
    )
    return _whole(held, marks, "unreadable claim")


def _age(ticket: Ticket) -> tuple[int, int]:
    return ticket.since, ticket.tie
