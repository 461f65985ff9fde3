"""An actual try of the lab: publish a ticket, see it, and (as root) become another user and attack it.

Nobody else decides meanwhile, since the try holds the mutex; it is over in some ten milliseconds.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from ...lab.directory import MUTEX
from ...lab.ledger import LedgerReader
from ...lab.locks import flock_holders
from ...lab.mutex import lab_mutex
from ...lab.owner import own_pid
from ...lab.published import Published, publish
from ...lab.record import Request

PATIENCE = 1.0  # seconds for the mutex
LONGEST = 5  # seconds, after which the other user is ended
NOBODY = 65534


@dataclass(frozen=True)
class Other:
    """What another user met."""

    uid: int
    trouble: str = ""  # what it could not do, and must be able to
    could: tuple[str, ...] = ()  # what it could do to our ticket, and must not


@dataclass(frozen=True)
class Tried:
    seen: bool  # our ticket was live for a reader
    named: bool  # /proc/locks names us as its holder
    freed: bool  # it was gone when we dropped it
    other: Other | None  # None: not tried


async def try_lab(lab: Path, uid: int = NOBODY, *, patience: float = PATIENCE) -> Tried:
    """Use the lab as jobs do; raise LabBusy when somebody keeps its mutex."""
    async with lab_mutex(lab, patience=patience):
        ticket = publish(lab, Request(job_id="check", name="gpufit lab check", needed=1))
        try:
            found = os.fstat(ticket.fd)
            named = own_pid() in flock_holders().get((found.st_dev, found.st_ino), [])
            seen = _sees(lab, ticket.id)
            other = _as_another_user(lab, ticket, uid) if os.geteuid() == 0 else None
        finally:
            ticket.drop()
        return Tried(seen, named, not _sees(lab, ticket.id), other)


def _sees(lab: Path, name: str) -> bool:
    return any(ticket.id == name for ticket in LedgerReader(lab).read().tickets)


def _as_another_user(lab: Path, ticket: Published, uid: int) -> Other:
    """Ask a child that gives up root. It is forked and not started anew: it may be unable to read our Python."""
    answer, out = os.pipe()
    pid = os.fork()
    if pid == 0:
        _child(lab, ticket, uid, out)
    os.close(out)
    with open(answer, "rb") as lines:
        text = lines.read()
    os.waitpid(pid, 0)
    if not text:
        return Other(uid, "the try did not end")
    said = json.loads(text)
    return Other(uid, said["trouble"], tuple(said["could"]))


def _child(lab: Path, ticket: Published, uid: int, out: int) -> None:
    other = Other(uid, "the try failed")
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(LONGEST)
        os.close(ticket.fd)  # or this child would hold the lock, too
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        other = Other(uid, _kept_from(lab, ticket), _could(lab, ticket))
    except BaseException as error:
        other = Other(uid, f"{type(error).__name__}: {error}")
    finally:
        os.write(out, json.dumps(asdict(other)).encode())
        os._exit(0)  # whatever happens, it never goes on as a second examination


def _kept_from(lab: Path, ticket: Published) -> str:
    """What a user must be able to do, and cannot; empty: all of it works."""
    if not _sees(lab, ticket.id):
        return "it does not see others' tickets"
    fd = os.open(lab / MUTEX, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return "the mutex did not keep it out while somebody else held it"
    except BlockingIOError:
        pass
    finally:
        os.close(fd)
    own = publish(lab, Request(job_id="check", name="gpufit lab check", needed=1))
    try:
        return "" if _sees(lab, own.id) else "its own ticket is not seen"
    finally:
        own.drop()


def _could(lab: Path, ticket: Published) -> tuple[str, ...]:
    path, aside = ticket.path, lab / f"{ticket.id}.aside"
    attacks: dict[str, Callable[[], object]] = {
        "write to": lambda: os.close(os.open(path, os.O_WRONLY)),
        "truncate": lambda: os.truncate(path, 0),
        "chmod": lambda: os.chmod(path, 0o666),
        "set the time of": lambda: os.utime(path, (0, 0)),
        "link": lambda: os.link(path, aside),
        "rename": lambda: os.rename(path, aside),
        "remove": lambda: os.unlink(path),
    }
    return tuple(name for name, attack in attacks.items() if _works(attack))


def _works(attack: Callable[[], object]) -> bool:
    try:
        attack()
    except (PermissionError, FileNotFoundError):  # not there: an attack before this one worked
        return False
    return True
