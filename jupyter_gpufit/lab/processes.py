"""Which processes hold a ticket or claim, by the kernel's word alone: before one of them is sent a signal.

What a file says of its writer would not do: somebody could write another's process into theirs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ..system.identity import ProcessId, kernel_text
from .locks import lock_on, parse_flocks
from .record import LONGEST, decode


def processes_holding(file: Path, uid: int) -> list[ProcessId]:
    """This user's processes that have the file's lock, as far as we may see; the one that took it comes first."""
    try:
        wanted = os.stat(file, follow_symlinks=False)
    except FileNotFoundError:
        return []
    found = [
        (taker != process.pid, process) for process, taker in _with_lock_on(wanted) if _real_uid(process.pid) == uid
    ]
    return [process for _, process in sorted(found, key=lambda pair: (pair[0], pair[1].pid))]


def processes_with(file: Path) -> list[ProcessId]:
    """The processes, anybody's as far as we may see, that have a lock on the file: root sees all, others their own."""
    return [process for process, _ in _with_lock_on(os.stat(file, follow_symlinks=False))]


def removed_claims_are_held(lab: Path) -> bool:
    """Has any process that we may look into (root: any) a claim of this lab open whose name somebody took away?"""
    return any(_is_claim(file) for _, file in _nameless(lab))


def keepers_of_nameless(lab: Path) -> set[tuple[int, int]]:
    """Who keeps a locked file of this lab that has no name: uid and pid, as far as we may see.

    Jobs that come new wait for it, since it may be a claim whose name was taken away (see again).
    """
    return {(uid, pid) for pid, _ in _nameless(lab) if (uid := _real_uid(pid)) is not None}


def _nameless(lab: Path) -> Iterator[tuple[int, Path]]:
    """Locked files without a name that a process has open: its pid, and the way to it."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):  # it ended, or it is not ours to look at
            for fd in os.listdir(f"/proc/{pid}/fd"):
                with suppress(OSError):  # closed meanwhile; or nothing of ours
                    file = Path(f"/proc/{pid}/fd/{fd}")
                    if os.readlink(file).startswith(f"{lab}/") and os.stat(file).st_nlink == 0 and _is_locked(file):
                        yield int(pid), file


def _is_locked(file: Path) -> bool:
    fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return lock_on(fd) != "none"
    finally:
        os.close(fd)


def _is_claim(file: Path) -> bool:
    with suppress(OSError, ValueError):  # it has ended; or it is no file of ours
        fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return decode(os.pread(fd, LONGEST, 0))[-1] is not None
        finally:
            os.close(fd)
    return False


def _with_lock_on(wanted: os.stat_result) -> Iterator[tuple[ProcessId, int]]:
    """Each process, and the pid of the one that took the lock."""
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        process = _process(pid)  # first: were the pid given to another process meanwhile, this one is not alive
        taker = _taker(pid, wanted) if process is not None else None
        if process is not None and taker is not None:
            yield process, taker


def _process(pid: int) -> ProcessId | None:
    try:
        return ProcessId.of(pid)
    except OSError:  # it may not be looked into
        return None


def _real_uid(pid: int) -> int | None:
    # Not the owner of /proc/<pid>, which is root for a process that may not be looked into.
    try:
        status = kernel_text(f"/proc/{pid}/status")
    except OSError:
        return None
    return int(status.partition("\nUid:")[2].split()[0])


def _taker(pid: int, wanted: os.stat_result) -> int | None:
    """Which process took the lock, if this one has an open file on which it lies."""
    with suppress(OSError):  # it ended, or it is not ours to look at
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):  # closed meanwhile
                # Only where a lock lies on this very opening is the file looked at: another may hang (a network's).
                taker = _flock(kernel_text(f"/proc/{pid}/fdinfo/{fd}"))
                if taker is not None and os.path.samestat(os.stat(f"/proc/{pid}/fd/{fd}"), wanted):
                    return taker
    return None


def _flock(fdinfo: str) -> int | None:
    """The pid in a line such as "lock:  1: FLOCK  ADVISORY  WRITE 31637 00:1b:5736 0 EOF"."""
    lines = [line.removeprefix("lock:") for line in fdinfo.splitlines() if line.startswith("lock:")]
    held = parse_flocks("\n".join(lines))
    return next((pids[0] for pids in held.values()), None)
