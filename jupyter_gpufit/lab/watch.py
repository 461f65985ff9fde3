"""Waiting for the lab to change, without polling: the kernel tells of every file that comes, goes or is let go.

The death of a holder closes its files, and that closing is an event, too.
"""

from __future__ import annotations

import errno
from pathlib import Path
from threading import Thread
from types import TracebackType

import anyio
from inotify_simple import INotify, flags

# Not CLOSE_NOWRITE: everybody's reading would wake everybody.
_FILES = flags.CREATE | flags.MOVED_TO | flags.MOVED_FROM | flags.DELETE | flags.CLOSE_WRITE
_LOST = flags.IGNORED | flags.Q_OVERFLOW | flags.DELETE_SELF | flags.MOVE_SELF
# Notes of use come with every end of a claim, which is an event already; when one expects to end is no reason to look.
_OURS_TO_IGNORE = ("u.", ".u.", "e.", ".s.")
POLL = 1.0  # seconds between two looks where no watch can be had


class LabWatch:
    """A watch on a lab, from its construction on: no change between two calls of `changed` is missed."""

    def __init__(self, lab: Path) -> None:
        self._lab = lab
        self._inotify: INotify | None = None
        self._open()

    def __enter__(self) -> LabWatch:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        if self._inotify is not None:
            # Aside: the kernel takes milliseconds to close it, in which our job could have started.
            Thread(target=self._inotify.close, daemon=True).start()
            self._inotify = None

    async def changed(self, patience: float) -> bool:
        """Wait for a change; False when there was none for so many seconds."""
        with anyio.move_on_after(patience):
            while not await self._next():
                pass
            return True
        return False

    async def _next(self) -> bool:
        if self._inotify is None:  # the user's inotify instances are used up, or the lab is gone
            await anyio.sleep(POLL)
            self._open()
            return True
        await anyio.wait_readable(self._inotify.fileno())
        return self.forget()

    def forget(self) -> bool:
        """Take note of what has happened so far, before looking; False when it was nothing of interest."""
        if self._inotify is None:
            return False
        events = list(self._inotify.read(timeout=0))
        if any(event.mask & _LOST for event in events):
            self.close()  # the directory is another one now, or events were lost
            self._open()
            return True
        return any(not event.name.startswith(_OURS_TO_IGNORE) for event in events)

    def _open(self) -> None:
        try:
            self._inotify = INotify(nonblocking=True)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                raise
            return
        try:
            self._inotify.add_watch(str(self._lab), _FILES | flags.DELETE_SELF | flags.MOVE_SELF)
        except OSError:
            self.close()
