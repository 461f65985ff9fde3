"""Whether a file can be trusted: what another user could have written is never unpickled."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path

from ..errors import NotYours


def check_trusted(path: Path) -> None:
    """Refuse a file that anybody but this user (or root) could have written, or swapped through a parent directory."""
    uid = os.getuid()
    for place in (path, *path.absolute().parents):
        found = os.stat(place, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            continue  # whoever could swap the link could write to its directory, which is checked next
        if found.st_uid not in (uid, 0):
            raise NotYours(str(path), f"{place} belongs to uid {found.st_uid}")
        writable = found.st_mode & (stat.S_IWOTH if _is_private_group(found.st_gid) else stat.S_IWGRP | stat.S_IWOTH)
        if writable and not (stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX):
            raise NotYours(str(path), f"{place} can be written by others")


def _is_private_group(gid: int) -> bool:
    """Whether the group is this user's alone, as systems make one per user; their files are often group-writable."""
    try:
        user, group = pwd.getpwuid(os.getuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return gid == user.pw_gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
