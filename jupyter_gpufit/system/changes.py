"""One inotify for the whole server: tells when a directory that somebody looks at has changed, and costs nothing else.

Where there is no inotify to be had (a user's instances are used up, a network home), those who look read at their pace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from inotify_simple import INotify, flags

GATHERED = 0.02  # seconds in which all that happens is told at once: a worker writes several files, line by line
_CHANGED = flags.MODIFY | flags.CREATE | flags.MOVED_TO | flags.MOVED_FROM | flags.DELETE | flags.CLOSE_WRITE


class Changes:
    """Directories, and who is to be told of their changes. For the event loop's thread."""

    def __init__(self) -> None:
        self._inotify: INotify | None = None
        self._told: dict[int, set[Callable[[], None]]] = {}  # by watch
        self._watches: dict[Path, int] = {}
        self._telling: asyncio.TimerHandle | None = None

    def watch(self, directory: Path, tell: Callable[[], None]) -> None:
        """Call `tell` after each change of the directory or of a file in it, which may be many times a second."""
        try:
            if self._inotify is None:
                self._inotify = INotify(nonblocking=True)
                self._listen(self._inotify)
            watch = self._inotify.add_watch(str(directory), _CHANGED)
        except OSError:
            return
        self._watches[directory] = watch
        self._told.setdefault(watch, set()).add(tell)

    def unwatch(self, directory: Path, tell: Callable[[], None]) -> None:
        """Do not tell this one any more."""
        watch = self._watches.get(directory)
        if watch is None or self._inotify is None:
            return
        told = self._told.get(watch, set())
        told.discard(tell)
        if not told:
            del self._watches[directory]
            self._told.pop(watch, None)
            try:
                self._inotify.rm_watch(watch)
            except OSError:
                pass  # the directory is gone
        if not self._watches:
            self.close()

    def close(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        if self._inotify is not None:
            asyncio.get_running_loop().remove_reader(self._inotify.fd)
            self._inotify.close()
            self._inotify = None
        self._told.clear()
        self._watches.clear()

    def _listen(self, inotify: INotify) -> None:
        asyncio.get_running_loop().add_reader(inotify.fd, self._gather, inotify)

    def _gather(self, inotify: INotify) -> None:
        """Something has happened, and more is about to."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(inotify.fd)
        self._telling = loop.call_later(GATHERED, self._tell, inotify)

    def _tell(self, inotify: INotify) -> None:
        self._telling = None
        self._listen(inotify)
        changed = set()
        for event in inotify.read(timeout=0):
            # Notes of use come with every end of a claim, which is a change already; and once a minute for nothing.
            if not event.name.startswith("u."):
                changed.add(event.wd)
        for watch in changed:
            for tell in list(self._told.get(watch, ())):
                tell()
