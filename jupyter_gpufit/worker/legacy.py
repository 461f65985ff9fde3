"""What a job leaves: its last word and its variables, to whoever waits for them, and else on the disk.

Neither waits for the other: on a disk that takes nothing, the notebook is told by the socket, and has its variables.
"""

from __future__ import annotations

import os
from typing import Any

import anyio
import anyio.to_thread

from ..graph import Reply
from ..jobs.control import Followers
from ..jobs.events import Note
from ..jobs.paths import JobPaths
from ..jobs.result import given, save
from ..jobs.state import LEFT
from ..units import format_bytes
from .account import Account

COLLECT_PATIENCE = 60.0  # seconds that a connected front has to take the result before it goes to the disk
AGAIN, AT_MOST = 1.0, 30.0  # seconds between two tries to write what the disk refused; doubled at each
LONGEST = 600.0  # seconds for which a job that has nothing else to give waits for room for its last word


class Legacy:
    """Of one worker's job."""

    def __init__(self, account: Account, paths: JobPaths) -> None:
        self.followers = Followers(on_change=self._stir)
        self._account = account
        self._paths = paths
        self._here = True  # the variables, and nowhere else
        self._said = False
        self._stirred = self._ended = anyio.Event()

    def begin(self) -> None:
        """The job has not ended; to be called in the loop."""
        self._stirred, self._ended = anyio.Event(), anyio.Event()

    def ended(self) -> None:
        """It has, or is released."""
        self._ended.set()

    async def outcome(self) -> dict[str, Any]:
        """Wait for the end: what it is, and the journal's entries of it where the disk has not taken them."""
        while (record := self._account.record).state not in LEFT:
            await self._ended.wait()
        return {
            "state": record.state,
            "reason": record.reason,
            "epoch": record.epoch,
            "unwritten": self._account.unwritten,
        }

    def collected(self) -> None:
        self._has_gone()
        self._stir()

    async def hand_over(self, reply: Reply | None) -> None:
        """Return when somebody, or the disk, has all of it."""
        self._here = self._here and reply is not None
        with anyio.move_on_after(COLLECT_PATIENCE):
            while self._here and self.followers.count:
                await self._until_stirred()
        until, pause = anyio.current_time() + LONGEST, AGAIN
        while not (await self._has_given(reply) and self._account.write_end()):
            if not self._paths.job.exists() or (not self._here and anyio.current_time() > until):
                return  # its files were removed: what is written now, nobody would find
            with anyio.move_on_after(pause):
                await self._until_stirred()
            pause = min(AT_MOST, 2 * pause)

    async def _has_given(self, reply: Reply | None) -> bool:
        if self._here and reply is not None:
            try:
                if (short := _short(reply, self._paths)) > 0:  # to try would fill the disk for everybody, each time
                    raise OSError(f"{format_bytes(short)} more are needed on the disk")
                await anyio.to_thread.run_sync(save, reply, self._paths)
                self._has_gone()
            except OSError as error:
                self._say(error.strerror or str(error))
        return not self._here

    def _has_gone(self) -> None:
        self._here = False
        given(self._paths)

    def _say(self, why: str) -> None:
        if not self._said:
            self._said = True
            note = Note(f"The variables cannot be saved ({why}); the worker keeps them until collected.")
            self._account.journal.append([note])

    async def _until_stirred(self) -> None:
        self._stirred = anyio.Event()
        await self._stirred.wait()

    def _stir(self) -> None:
        self._stirred.set()


def _short(reply: Reply, paths: JobPaths) -> int:
    """Bytes that the disk lacks."""
    disk = os.statvfs(paths.root)
    needed = len(reply.graph) + reply.memory.size
    needed += len(reply.input_graph or b"") + (reply.input_memory.size if reply.input_memory is not None else 0)
    return needed - disk.f_bavail * disk.f_frsize
