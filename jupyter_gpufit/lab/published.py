"""Our own files in the lab: published already locked, dropped by their owner, and swept away should he have died.

A file counts while the lock its writer took is held. So a process that dies in whatever way, at whatever step, leaves
nothing behind that counts, and nobody needs to clean up for the others.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from .entry import NAME, READ, Kind, LedgerEntry, marks_of, read_entry
from .locks import lock_for_life, lock_on, unlock
from .owner import this_process
from .record import Claim, Hold, Request, encode


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
        value = LedgerEntry(request, this_process(), hold).value(self.id, os.fstat(self.fd))
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
        if is_dead(self.path):
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
    return f"{secrets.token_hex(4)}{marks_of(hold):08x}"


def _fill(fd: int, kind: Kind, request: Request, hold: Hold | None) -> None:
    writer = replace(this_process(), write_lock=lock_for_life(fd))
    os.write(fd, encode(request, writer, hold))
    # Against the umask; and before the link, since a later change would move the time by which it is ordered.
    os.fchmod(fd, 0o644)


def sweep(lab: Path, *, everyone: bool = False) -> int:
    """Remove our own dead files (or, as root, everybody's), and return how many. Nothing depends on it but order."""
    removed = 0
    with suppress(OSError), os.scandir(lab) as entries:
        for entry in entries:
            match = NAME.fullmatch(entry.name)
            if match and (everyone or int(match[2]) == os.geteuid()) and is_dead(lab / entry.name):
                with suppress(OSError):
                    os.unlink(lab / entry.name)
                    removed += 1
    return removed


def is_dead(path: Path) -> bool:
    try:
        fd = os.open(path, READ)
    except OSError:
        return False
    try:
        lock = lock_on(fd)
        if lock != "flock":
            return lock == "none"
        entry = read_entry(path.name, fd)
        return entry is not None and entry.writer.write_lock  # a stranger's flock, to keep it
    finally:
        os.close(fd)
