"""Looks for notebooks that were moved where no server hears of it: by `mv` in a terminal, a file manager, git.

A file that is moved within a file system stays the same file, by its inode, and has not been written: so a copy takes
no jobs, whatever its cells are, and no notebook is opened. It is looked for once, when it is gone: in the folder in
which it was, in those inside of it and in the one around it. One that this server never saw, that was moved farther
away, or written before the next look, is not found: better no notebook than a wrong one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from ..actions.status import JobView
from ..jobs.renamed import note_renamed
from ..settings import Settings

EVERY = 5.0  # seconds between two looks
FOLDERS = 100  # that are looked into for one that is gone
NAMES = 10_000  # that are looked at in one of them

_File = tuple[int, int, int, int]  # an inode's number alone is given to the next new file once its own is deleted


class MovedNotebooks:
    """Asked at each reading, and does something now and then."""

    def __init__(self, *, every: float = EVERY) -> None:
        self._every = every
        self._looked = float("-inf")  # time.monotonic()
        self._seen: dict[str, _File] = {}  # the notebooks that are there; who saves one may make a new file of it

    def look(self, settings: Settings, jobs: Iterable[JobView]) -> int:
        """Note what was moved; of how many jobs it was."""
        if time.monotonic() - self._looked < self._every:
            return 0
        self._looked = time.monotonic()
        before, self._seen = self._seen, {}
        count = 0
        for notebook in {job.notebook for job in jobs if os.path.isabs(job.notebook)}:
            if (file := _file(notebook)) is not None:
                self._seen[notebook] = file
            elif notebook in before:
                found = list(_same(notebook, before[notebook]))
                if len(found) == 1:  # of two links nobody can say which it is
                    count += note_renamed(settings, notebook, found[0], guessed=True)
                    self._seen[found[0]] = before[notebook]  # it may move on before the next look
        return count


def _file(path: str) -> _File | None:
    try:
        found = os.lstat(path)
    except (OSError, ValueError):  # a name may be anything
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def _same(notebook: str, file: _File) -> Iterator[str]:
    """Where this file is now; hidden ones are what editors lay aside while they save."""
    ending = os.path.splitext(notebook)[1]
    for folder in _folders(Path(notebook).parent):
        for entry in _entries(folder):
            if entry.name.endswith(ending) and not entry.name.startswith(".") and entry.inode() == file[1]:
                if _file(entry.path) == file:
                    yield entry.path


def _folders(before: Path) -> Iterator[Path]:
    yield before
    yield before.parent
    inside = (Path(entry.path) for entry in _entries(before) if entry.is_dir(follow_symlinks=False))
    yield from islice(inside, FOLDERS - 2)


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Of a folder that is gone, or closed to us, none."""
    with suppress(OSError), os.scandir(folder) as entries:
        yield from islice(entries, NAMES)
