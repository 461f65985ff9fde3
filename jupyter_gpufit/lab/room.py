"""Room in the lab itself, and who takes it: what is said when a ticket or claim cannot be written."""

from __future__ import annotations

import errno
import os
from collections import Counter
from contextlib import suppress

from ..errors import LabGone
from ..system.users import user_name
from ..units import format_bytes
from .directory import MUTEX, Lab
from .entry import is_exhausted, is_full


def lab_trouble(lab: Lab, error: OSError) -> str:
    """Why the lab cannot be used at this moment, and who is to be asked."""
    why = error.strerror or str(error)
    if is_exhausted(error):
        return f"this process cannot open files at the moment ({why}); it goes on by itself as soon as it can"
    if lab.shared and error.errno == errno.ENOENT and not (lab.path / MUTEX).exists():
        return str(LabGone(str(lab.path))).partition(" What runs")[0]
    text = f"{lab.path} cannot be used ({why})"
    return f"{text}: {fills}" if is_full(error) and lab.shared and (fills := who_fills(lab)) else text


def who_fills(lab: Lab) -> str:
    """Whose files take the most room, in words; empty: nobody's."""
    files, used = Counter[int](), Counter[int]()
    with suppress(OSError), os.scandir(lab.path) as entries:
        for entry in entries:
            with suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                files[found.st_uid] += 1
                used[found.st_uid] += found.st_blocks * 512
    if not files:
        return ""
    uid = max(files, key=lambda uid: (used[uid], files[uid])) if _bytes_are_short(lab) else files.most_common(1)[0][0]
    return f"{user_name(uid)} has {files[uid]} files with {format_bytes(used[uid])} in it; ask them or an administrator"


def _bytes_are_short(lab: Lab) -> bool:
    room = os.statvfs(lab.path)
    return room.f_bavail * room.f_frsize < 1 << 16 or room.f_favail > 0
