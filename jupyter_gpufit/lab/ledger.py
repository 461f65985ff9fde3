"""The files of the lab: published already locked, read without trust, dropped by their owner.

A file counts while the lock its writer took is held. So a process that dies in whatever way, at whatever step, leaves
nothing behind that counts, and nobody needs to clean up for the others.

Whatever happens on one file is a fact about that file: it is strange, its owner is named, and it is passed over. Only a
claim is more than that, since its devices are in use: held and not to be read, it takes what its name has the marks of.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import operator
import os
import re
import secrets
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from .locks import KeptOpen, Lock, LockList, lock_for_life, lock_on, unlock
from .owner import held_by_owner, pid_view, started, this_process, uid_of
from .record import (
    LONGEST,
    MOST_CLAIMS,
    Claim,
    Hold,
    Request,
    Ticket,
    TicketWriter,
    UnreadHold,
    decode,
    device_mark,
    encode,
)

Kind = Literal["q", "c"]  # a ticket (in the queue), a claim
_NAME = re.compile(r"([qc])\.([0-9]{1,10})\.([0-9a-f]{16})")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO in our way must not make us wait
_Key = tuple[str, int]  # name and inode
MOST_TICKETS = 500  # of one user, that count
MOST_OPEN = 32  # claims that stay open, of as many as there may be
LOOKS = 3  # at a lab in which claims end while it is read
_FULL = {errno.ENOSPC, errno.EDQUOT}
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}  # of ours or the machine's, and no fact about a file


@dataclass
class Published:
    """A file of this process in the lab: it counts until it is dropped, or this process ends."""

    path: Path
    fd: int

    @property
    def id(self) -> str:
        return self.path.name

    def as_claim(self, request: Request, hold: Hold) -> Claim:
        """This file as everybody else reads it."""
        value = _Entry(request, this_process(), hold).value(self.id, os.fstat(self.fd))
        assert isinstance(value, Claim)
        return value

    @property
    def since(self) -> int:
        """ns since 1970: the time by which it is ordered."""
        return os.fstat(self.fd).st_ctime_ns

    @property
    def still_there(self) -> bool:
        """False once somebody emptied the lab, or made it anew."""
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self.fd))
        except FileNotFoundError:
            return False

    def lower(self) -> None:
        """Hold it by the lowest free descriptor.

        A dying process closes its highest descriptors first. The claim must outlast the driver's, which it opens later:
        with numbers that were free by then, and could be lower than ours.
        """
        fd = fcntl.fcntl(self.fd, fcntl.F_DUPFD_CLOEXEC, 3)
        fd, self.fd = max(fd, self.fd), min(fd, self.fd)
        os.close(fd)

    def replace(self, path: Path, fd: int) -> None:
        """Count instead of our file at `path`, behind its descriptor: that may be lower, and be known to others.

        A child that was forked while it counted has it open, too; so it is unlocked and not only closed.
        """
        unlock(fd)
        os.dup2(self.fd, fd, inheritable=False)
        fd, self.fd = self.fd, fd
        os.close(fd)
        path.unlink(missing_ok=True)

    def drop(self) -> None:
        """Give it back, unless a child still holds it; safe to repeat."""
        if self.fd < 0:
            return
        fd, self.fd = self.fd, -1
        os.close(fd)
        if _is_dead(self.path):
            with suppress(OSError):
                self.path.unlink()


def publish(lab: Path, request: Request, hold: Hold | None = None) -> Published:
    """Make a ticket, or with `hold` a claim, that nobody ever sees unlocked."""
    kind: Kind = "q" if hold is None else "c"
    name = f"{kind}.{os.geteuid()}.{secrets.token_hex(8) if hold is None else _nonce_with_marks(hold)}"
    directory = os.open(lab, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fd = os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=directory)
        try:
            _fill(fd, kind, request, hold)
            os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=directory, follow_symlinks=True)
        except BaseException:
            os.close(fd)
            raise
    finally:
        os.close(directory)
    return Published(lab / name, fd)


def _nonce_with_marks(hold: Hold) -> str:
    return f"{secrets.token_hex(4)}{_marks(hold):08x}"


def _fill(fd: int, kind: Kind, request: Request, hold: Hold | None) -> None:
    writer = replace(this_process(), write_lock=lock_for_life(fd))
    os.write(fd, encode(request, writer, hold))
    # Against the umask; and before the link, since a later change would move the time by which it is ordered.
    os.fchmod(fd, 0o644)


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
    _known: dict[_Key, _Entry] = field(default_factory=dict)
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
            if key[1] not in seen and (key in self._known or _NAME.fullmatch(key[0])):
                sight = self._look(key)
                if sight is not None:
                    seen.add(key[1])
                    yield key, sight
                elif key[0].startswith("c."):
                    self._gone = True

    def _look(self, key: _Key) -> _Sight | None:
        try:
            fd = os.open(f"{self.lab}/{key[0]}", _READ)
        except OSError as error:
            if error.errno in _EXHAUSTED:
                raise  # not to know is not the same as free
            return self._look_from_outside(key, error)
        try:
            found = os.fstat(fd)
            lock = lock_on(fd) if key in self._known or _ours(key[0], found) else "none"
            if lock == "none":
                self._dead.add(key)
                return None
            if key in self._known:
                return _Sight(found, lock, self._known[key])
            if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return _Sight(found, lock, None, "can be written to by others")
            entry = _read_entry(key[0], fd)
            return _Sight(found, lock, entry, "" if entry else "is held and says nothing we can read")
        finally:
            os.close(fd)

    def _look_from_outside(self, key: _Key, error: OSError) -> _Sight | None:
        """A file that cannot be opened: without permission, under a lease, or nothing that one of us made."""
        try:
            found = os.lstat(f"{self.lab}/{key[0]}")
        except OSError:
            return None
        if _ours(key[0], found):
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
        marks[id] = marks.get(id, 0) | _marks(claim.hold)
        strange.append(Strange(claim.id, claim.uid, f"is more than the {MOST_CLAIMS} claims that count"))
    kept += [_whole(claim, marks[claim.id], f"claims beyond {MOST_CLAIMS}") for claim in first.values()]
    return sorted(kept, key=_age), strange


def _whole(claim: Ticket, marks: int, called: str) -> Claim:
    hold = UnreadHold(devices=(), bytes=0, alone=True, share=float(marks.bit_count()), marks=marks)
    return Claim(**vars(claim) | {"request": Request(job_id="", name=called), "hold": hold})


def _marks(hold: Hold) -> int:
    if isinstance(hold, UnreadHold):
        return hold.marks
    return functools.reduce(operator.or_, map(device_mark, hold.devices), 0)


@dataclass(frozen=True)
class _Sight:
    """A file that may count, at one look."""

    found: os.stat_result
    lock: Lock | Literal["unseen"]
    entry: _Entry | None  # None: it says nothing that we can read
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
    match = _NAME.fullmatch(name)
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


@dataclass
class _Entry:
    request: Request
    writer: TicketWriter
    hold: Hold | None
    made: Ticket | None = None

    def value(self, name: str, found: os.stat_result) -> Ticket:
        if self.made is None or self.made.since != found.st_ctime_ns:
            self.made = self._make(name, found)
        return self.made

    def _make(self, name: str, found: os.stat_result) -> Ticket:
        ticket = Ticket(
            id=name,
            uid=found.st_uid,
            since=found.st_ctime_ns,  # the only time of a file that nobody can set back
            tie=found.st_ino,  # the time's steps are 4 ms; on tmpfs this number, which nobody chooses, grows
            pid=self.writer.pid,
            started=self.writer.start_time,
            view=self.writer.view,
            request=self.request,
        )
        return ticket if self.hold is None else Claim(**vars(ticket), hold=self.hold)


def _age(ticket: Ticket) -> tuple[int, int]:
    return ticket.since, ticket.tie


def _ours(name: str, found: os.stat_result) -> bool:
    """Could one of us have made it? A hard link made by somebody else does not take that away."""
    match = _NAME.fullmatch(name)
    return match is not None and stat.S_ISREG(found.st_mode) and int(match[2]) == found.st_uid


def _read_entry(name: str, fd: int) -> _Entry | None:
    """What the file says; None when it is nothing that we can read, and never will be."""
    try:
        request, writer, hold = decode(os.pread(fd, LONGEST, 0))
    except ValueError:
        return None
    return _Entry(request, writer, hold) if (name[0] == "c") == (hold is not None) else None


def sweep(lab: Path, *, everyone: bool = False) -> int:
    """Remove our own dead files (or, as root, everybody's), and return how many. Nothing depends on it but order."""
    removed = 0
    with suppress(OSError), os.scandir(lab) as entries:
        for entry in entries:
            match = _NAME.fullmatch(entry.name)
            if match and (everyone or int(match[2]) == os.geteuid()) and _is_dead(lab / entry.name):
                with suppress(OSError):
                    os.unlink(lab / entry.name)
                    removed += 1
    return removed


def _is_dead(path: Path) -> bool:
    try:
        fd = os.open(path, _READ)
    except OSError:
        return False
    try:
        lock = lock_on(fd)
        if lock != "flock":
            return lock == "none"
        entry = _read_entry(path.name, fd)
        return entry is not None and entry.writer.write_lock  # a stranger's flock, to keep it
    finally:
        os.close(fd)


def is_full(error: OSError) -> bool:
    return error.errno in _FULL


def is_exhausted(error: OSError) -> bool:
    """Is it for want of descriptors or memory, here or on the machine?"""
    return error.errno in _EXHAUSTED
