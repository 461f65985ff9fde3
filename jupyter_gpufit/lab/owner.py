"""Whose file is it, and does its owner still hold it? Answered by the kernel alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache

from ..system.identity import boot_id, kernel_text, start_time_of
from .record import Ticket, TicketWriter


def this_process() -> TicketWriter:
    return _this_process(os.getpid())


@lru_cache(maxsize=1)
def _this_process(_forked: int) -> TicketWriter:
    pid = own_pid()
    return TicketWriter(pid=pid, start_time=start_time_of(pid) or 0, boot=boot_id(), view=pid_view())


def own_pid() -> int:
    """Our pid as /proc numbers it, which /proc/locks speaks of; with a /proc from outside it is not os.getpid()."""
    return int(os.readlink("/proc/self"))


def pid_view() -> int:
    """The pid namespace that our pids belong to; 0 where /proc shows another one."""
    return _namespace() if own_pid() == os.getpid() else 0


@cache
def _namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


def uid_of(pid: int) -> int | None:
    """Whose process it is; None where it is gone or hidden."""
    try:
        uid = os.stat(f"/proc/{pid}").st_uid
        if uid != 0:
            return uid
        # Root's, or one that may not be looked into, as after a change of user.
        return int(kernel_text(f"/proc/{pid}/status").partition("\nUid:")[2].split()[0])
    except (OSError, IndexError):
        return None


def is_its_writer(ticket: Ticket) -> bool:
    """Whether the process of that number is the one that wrote it, as far as its user can be believed at all.

    A child may hold a claim when its writer is dead, and the number have come again; or a container counts on its own.
    """
    if ticket.view and pid_view() not in (ticket.view, 0):
        return False
    return uid_of(ticket.pid) == ticket.uid and ticket.started in (0, started(ticket.pid))


def is_stopped(claim: Ticket) -> bool:
    """Whether its process was stopped (SIGSTOP, a debugger): it holds what it holds, and answers nothing."""
    try:
        state = kernel_text(f"/proc/{claim.pid}/stat").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state in "tT" and is_its_writer(claim)


def started(pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None where it is gone or hidden."""
    try:
        return start_time_of(pid)
    except OSError:
        return None


def held_by_owner(
    writer: TicketWriter,
    uid: int,
    pids: list[int],
    *,
    view: int,
    uid_of: Callable[[int], int | None] = uid_of,
    started: Callable[[int], int | None] = started,
) -> bool:
    """Is the flock on a file of `uid`, which these processes took, the one its writer took? (Where that is all it has.)

    Anybody who may read the file can lock it after its owner's death, and so keep a dead claim. That is the only case
    to answer no, and it needs proof: a holder that the kernel does not name (in another pid namespace) is the owner.
    """
    if not pids:
        return True
    if not view or view != writer.view:
        return any(uid_of(pid) in (uid, None) for pid in pids)
    if writer.pid not in pids:
        # The kernel goes on naming the process that took the lock when that is dead and a child still has it.
        return False
    # Somebody else's process that was given its number is not its writer.
    return uid_of(writer.pid) in (uid, None) or started(writer.pid) in (writer.start_time, None)


def covered(pids: Iterable[int], holders: Mapping[int, str]) -> dict[int, str]:
    """Which of these processes are, or descend from, a process that holds a claim: pid -> the claim's id."""
    found = {}
    parent = cache(_parent)  # the processes of a lab have most of their ancestors in common
    for pid in set(pids):
        for ancestor in _line_of(pid, parent):
            if ancestor in holders:
                found[pid] = holders[ancestor]
                break
    return found


def _line_of(pid: int, parent: Callable[[int], int], most: int = 64) -> Iterable[int]:
    while pid > 1 and most > 0:
        yield pid
        pid, most = parent(pid), most - 1


def _parent(pid: int) -> int:
    try:
        stat = kernel_text(f"/proc/{pid}/stat")
    except OSError:
        return 0
    return int(stat[stat.rindex(")") + 2 :].split()[1])
