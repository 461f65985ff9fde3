"""A lab that was emptied while jobs run: who holds a device says so again, and nobody takes it meanwhile.

What root can remove is the name of a claim, never its lock. So a holder publishes its claim anew, as soon as there is a
lab. Whoever knew the old one counts it for as long as its lock is held (see ledger). Whoever comes new sees, in a lab
that is a file system of its own, locks that no name leads to, and waits a moment for their holders.

Anybody can keep such a lock, and nobody but root sees who does. So each user's jobs wait for such locks ten seconds
together, of which one comes back each minute. Their memory of that lies in the lab, and goes with what is emptied.

A command of `gpufit run` that outlives it holds the claim no longer once it was published anew: the name is its
parent's.
"""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from .locks import write_locks
from .published import publish
from .record import Claim
from .stalled import FORGIVEN
from .usage import append, noted, own_text

COMEBACK = 10.0  # seconds for which one waits for holders who are not in the lab again
LATEST = 64 << 10  # bytes of our record that are looked at
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
    _since: float | None = None

    async def wait(self) -> None:
        """Raise OSError as long as there are holders who have yet to come back."""
        now = anyio.current_time()
        over = self._until is not None and now >= self._until
        nameless = frozenset() if over else await _nameless(self.lab)
        if not nameless:
            self._remember(now)
            return
        if self._until is None:
            self._since, self._until = now, now + _patience(self.lab)
        if now < self._until:
            raise OSError(errno.EAGAIN, "it was emptied, and those who hold devices are about to say so again")

    def _remember(self, now: float) -> None:
        """Note, for the user's next jobs, how long this one has waited."""
        since, self._since = self._since, None
        if since is not None and self._until is not None and (seconds := min(now, self._until) - since) > 0:
            with suppress(OSError):
                waited = COMEBACK - _patience(self.lab) + seconds
                append(self.lab, {"format": 1, "nameless": round(waited, 2), "at": time.time()})


async def _nameless(lab: Path) -> frozenset[int]:
    """The same as `unlisted`, without what was just being published."""
    if found := unlisted(lab):
        await anyio.sleep(_MOMENT)
        found &= unlisted(lab)
    return found


def _patience(lab: Path) -> float:
    """Seconds for which our user's jobs still wait; no holder is back in the fraction of a second."""
    with suppress(OSError):
        left = COMEBACK - nameless_waits(own_text(lab, LATEST), time.time())
        return left if left > COMEBACK / 10 else 0.0
    return COMEBACK


def nameless_waits(text: bytes, now: float) -> float:
    """For how long our jobs have waited, by our own record, less what is forgiven by now."""
    waits = noted(text, "nameless", now, lambda waited, age: min(COMEBACK, float(waited)) - age / FORGIVEN)
    return max([0.0, *waits])


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
