"""The files of the lab: published already locked, read without trust, dropped by their owner.

A file counts while the lock its writer took is held. So a process that dies in whatever way, at whatever step, leaves
nothing behind that counts, and nobody needs to clean up for the others.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from .owner import flock_holders, held_by_owner, pid_view, this_process, uid_of
from .pause import gpufit_test_pause
from .record import LONGEST, Claim, Hold, Request, Ticket, TicketWriter, decode, encode

Kind = Literal["q", "c"]  # a ticket (in the queue), a claim
_NAME = re.compile(r"([qc])\.([0-9]{1,10})\.([0-9a-f]{16})")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO in our way must not make us wait
_GONE = {errno.ENOENT, errno.ELOOP, errno.EACCES, errno.ENXIO, errno.EISDIR}  # nothing that one of us published
_Key = tuple[str, int]  # name and inode
_FULL = {errno.ENOSPC, errno.EDQUOT}


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

    def drop(self) -> None:
        """Give it back, unless a child still holds it; safe to repeat."""
        if self.fd < 0:
            return
        fd, self.fd = self.fd, -1
        os.close(fd)
        gpufit_test_pause(f"{self.id[0]}:closed")
        if _is_dead(self.path):
            with suppress(OSError):
                self.path.unlink()


def publish(lab: Path, request: Request, hold: Hold | None = None) -> Published:
    """Make a ticket, or with `hold` a claim, that nobody ever sees unlocked."""
    kind: Kind = "q" if hold is None else "c"
    name = f"{kind}.{os.geteuid()}.{secrets.token_hex(8)}"
    directory = os.open(lab, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fd = os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=directory)
        try:
            _fill(fd, kind, encode(request, this_process(), hold))
            os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=directory, follow_symlinks=True)
        except BaseException:
            os.close(fd)
            raise
    finally:
        os.close(directory)
    gpufit_test_pause(f"{kind}:linked")
    return Published(lab / name, fd)


def _fill(fd: int, kind: Kind, text: bytes) -> None:
    gpufit_test_pause(f"{kind}:created")
    os.write(fd, text)
    gpufit_test_pause(f"{kind}:written")
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    # Against the umask; and before the link, since a later change would move the time by which it is ordered.
    os.fchmod(fd, 0o644)
    gpufit_test_pause(f"{kind}:locked")


@dataclass(frozen=True)
class LedgerLook:
    """What counts in the lab at one moment, oldest first."""

    tickets: tuple[Ticket, ...] = ()
    claims: tuple[Claim, ...] = ()
    changed: float = 0.0  # seconds since 1970: when the directory last changed, the same for everybody who looks
    strange: tuple[str, ...] = ()  # files that are held, and say nothing we can read


@dataclass
class LedgerReader:
    """Reads a lab again and again, and remembers what cannot change."""

    lab: Path
    _dead: set[_Key] = field(default_factory=set)  # what is dead stays dead
    _known: dict[_Key, _Entry | None] = field(default_factory=dict)

    def read(self) -> LedgerLook:
        """What counts now."""
        changed = os.stat(self.lab).st_mtime_ns / 1e9
        held = dict(self._held())
        self._known = {key: entry for key, entry in self._known.items() if key in held}
        for name in self._kept_by_strangers(held):
            del held[name]
        tickets: list[Ticket] = []
        claims: list[Claim] = []
        for key, found in held.items():
            entry = self._known[key]
            if entry is not None:
                value = entry.value(key[0], found)
                claims.append(value) if isinstance(value, Claim) else tickets.append(value)
        strange = [key[0] for key in held if self._known[key] is None]
        return LedgerLook(
            tuple(sorted(tickets, key=_age)), tuple(sorted(claims, key=_age)), changed, tuple(sorted(strange))
        )

    def _kept_by_strangers(self, held: Mapping[_Key, os.stat_result]) -> list[_Key]:
        """Files whose owner is dead, and on which somebody else took a lock to keep them."""
        doubtful = [
            (key, found, entry)
            for key, found in held.items()
            if (entry := self._known[key]) is not None and uid_of(entry.writer.pid) != found.st_uid
        ]
        if not doubtful:
            return []  # the usual case: the list of all locks is long, and to print it the kernel stops all locking
        holders, view = flock_holders(), pid_view()
        return [
            key
            for key, found, entry in doubtful
            if not held_by_owner(entry.writer, found.st_uid, holders.get((found.st_dev, found.st_ino), []), view=view)
        ]

    def _held(self) -> Iterator[tuple[_Key, os.stat_result]]:
        """The files on which somebody holds a lock."""
        with os.scandir(self.lab) as entries:
            there = {(entry.name, entry.inode()) for entry in entries}
        self._dead &= there
        seen = set()  # a hard link would show one file twice
        for key in sorted(there - self._dead):
            if key[1] not in seen and (key in self._known or _NAME.fullmatch(key[0])):
                found = self._look(key)
                if found is not None:
                    seen.add(key[1])
                    yield key, found

    def _look(self, key: _Key) -> os.stat_result | None:
        try:
            fd = os.open(f"{self.lab}/{key[0]}", _READ)
        except OSError as error:
            if error.errno not in _GONE:
                raise  # too many open files, say: not to know is not the same as free
            return None
        try:
            found = os.fstat(fd)
            if not (key in self._known or _sound(key[0], found)) or not _locked(fd):
                self._dead.add(key)
                return None
            if key not in self._known:
                self._known[key] = _read_entry(key[0], fd)
            return found
        finally:
            os.close(fd)


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
            request=self.request,
        )
        return ticket if self.hold is None else Claim(**vars(ticket), hold=self.hold)


def _age(ticket: Ticket) -> tuple[int, int]:
    return ticket.since, ticket.tie


def _sound(name: str, found: os.stat_result) -> bool:
    """Could one of us have published it? A hard link made by somebody else does not take that away."""
    match = _NAME.fullmatch(name)
    return (
        match is not None
        and stat.S_ISREG(found.st_mode)
        and int(match[2]) == found.st_uid
        and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def _locked(fd: int) -> bool:
    """Does anybody hold the lock? Asked with a shared one, so that those who ask are not in each other's way."""
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


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
    with os.scandir(lab) as entries:
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
        return not _locked(fd)
    finally:
        os.close(fd)


def is_full(error: OSError) -> bool:
    return error.errno in _FULL
