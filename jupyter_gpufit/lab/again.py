"""A lab that was emptied while jobs run: who holds a device says so again, and nobody takes it meanwhile.

What root can remove is the name of a claim, never its lock. So a holder publishes its claim anew, as soon as there is a
lab. Whoever knew the old one counts it for as long as its lock is held (see ledger). Whoever comes new sees, in a lab
that is a file system of its own, locks that no name leads to, and waits a moment for their holders.

A command of `gpufit run` that outlives it holds the claim no longer once it was published anew: the name is its
parent's.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from .ledger import publish
from .locks import write_locks
from .record import Claim

COMEBACK = 10.0  # seconds for which one waits for holders who are not in the lab again
_MOMENT = 0.02  # seconds; a claim that is just being published has no name either, and has one by then


def publish_again(lab: Path, claim: Claim, fd: int) -> Claim:
    """Publish a claim of ours whose name is gone, behind the descriptor that it had; OSError where there is no lab."""
    hold = replace(claim.hold, began=claim.began)
    file = publish(lab, claim.request, hold)
    again = file.as_claim(claim.request, hold)
    file.replace(lab / claim.id, fd)
    return again


@dataclass
class Comeback:
    """What one waiter waits for in a lab that was emptied: once, so that nobody can keep it waiting."""

    lab: Path
    _until: float | None = None

    async def wait(self) -> None:
        """Raise OSError as long as there are holders who have yet to come back."""
        now = anyio.current_time()
        if (self._until is not None and now >= self._until) or not (first := unlisted(self.lab)):
            return
        await anyio.sleep(_MOMENT)
        if first & unlisted(self.lab):
            self._until = self._until if self._until is not None else now + COMEBACK
            raise OSError(errno.EAGAIN, "it was emptied, and those who hold devices are about to say so again")


def unlisted(lab: Path) -> frozenset[int]:
    """The inodes that somebody has locked in a lab of its own file system, and that no name leads to."""
    if not os.path.ismount(lab):
        return frozenset()  # other things than ours may be locked there
    device = os.stat(lab).st_dev
    locks = write_locks() | write_locks()  # what changes while a long list is read may be missing in one
    held = {inode for where, inode in locks if where == device}
    if held:
        with os.scandir(lab) as entries:
            held.difference_update([entry.inode() for entry in entries])
    return frozenset(held)
