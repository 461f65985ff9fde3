"""What stands at a path, without following links: what root makes or mends there, somebody else may have prepared."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["directory", "file", "link", "other"]


@dataclass(frozen=True)
class PlaceEntry:
    """What a directory's entry is."""

    kind: Kind
    uid: int
    mode: int  # the permissions, with the sticky bit
    links: int = 1


def entry(path: Path, *, dir_fd: int | None = None) -> PlaceEntry | None:
    """What stands there; None: nothing."""
    try:
        return _entry(os.stat(path, dir_fd=dir_fd, follow_symlinks=False))
    except FileNotFoundError:
        return None


def entry_of(fd: int) -> PlaceEntry:
    return _entry(os.fstat(fd))


def _entry(found: os.stat_result) -> PlaceEntry:
    kinds: dict[int, Kind] = {stat.S_IFDIR: "directory", stat.S_IFREG: "file", stat.S_IFLNK: "link"}
    return PlaceEntry(
        kinds.get(stat.S_IFMT(found.st_mode), "other"), found.st_uid, stat.S_IMODE(found.st_mode), found.st_nlink
    )


def without_links(path: Path) -> Path:
    """The same place, by a path whose directories are no links (/var/run is one); what stands there may still be."""
    return path.absolute().parent.resolve() / path.name


def open_to_swap(path: Path) -> str:
    """Why somebody could put another directory in this one's place; empty: only root can."""
    for parent in path.parents:
        found = entry(parent)
        if found is None:
            continue
        if found.uid != 0:
            return f"{parent} belongs to uid {found.uid}"
        if found.mode & 0o022 and not found.mode & stat.S_ISVTX:
            return f"others can write to {parent}"
    return ""


def nearest(path: Path) -> Path:
    """The path itself, or the nearest directory above it that exists."""
    return next(place for place in (path, *path.parents) if place.exists())
