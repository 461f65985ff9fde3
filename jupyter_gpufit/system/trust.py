"""Whether a file can be trusted: what another user could have written is never unpickled."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from ..errors import NotYours

MOST_LINKS = 40  # on one way, as the kernel counts


def check_trusted(path: Path) -> None:
    """Refuse a file that anybody but this user (or root) could have written, or swapped through a parent directory."""
    uid, shared = os.getuid(), False
    for place, found in _way_to(path):
        is_link = stat.S_ISLNK(found.st_mode)
        # Whoever could swap a link could write to its directory, or it is their own, in one like /tmp.
        if found.st_uid not in (uid, 0) and (shared or not is_link):
            raise NotYours(str(path), f"{place} belongs to uid {found.st_uid}")
        if is_link:
            continue
        writable = found.st_mode & (stat.S_IWOTH if _is_private_group(found.st_gid) else stat.S_IWGRP | stat.S_IWOTH)
        shared = bool(writable) and stat.S_ISDIR(found.st_mode) and bool(found.st_mode & stat.S_ISVTX)
        if writable and not shared:
            raise NotYours(str(path), f"{place} can be written by others")


def _way_to(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Each directory and link that the kernel goes through to a file, from the root on, and the file itself."""
    place, ahead, links = Path("/"), [*reversed(path.absolute().parts)], 0
    while ahead:
        name = ahead.pop()
        there = place.parent if name == ".." else place / name
        found = os.lstat(there)
        yield there, found
        if not stat.S_ISLNK(found.st_mode):
            place = there
            continue
        if (links := links + 1) > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        ahead += reversed(Path(os.readlink(there)).parts)


def _is_private_group(gid: int) -> bool:
    """Whether the group is this user's alone, as systems make one per user; their files are often group-writable."""
    try:
        user, group = pwd.getpwuid(os.getuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return gid == user.pw_gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
