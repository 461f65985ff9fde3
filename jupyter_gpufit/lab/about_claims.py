"""Small files of the lab that one user writes about a claim: who wrote one is asked of the file, never of its name."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from pathlib import Path

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO in our way must not make us wait
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def nonce(claim: str) -> str:
    """By which such a file's name knows its claim, from the claim's id."""
    return claim.rpartition(".")[2]


def read_written_by(uid: int, path: Path, longest: int) -> tuple[bytes, os.stat_result] | None:
    """What stands there, if that user and nobody else can have written it."""
    try:
        fd = os.open(path, _READ)
    except OSError:
        return None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != uid or found.st_mode & _OTHERS:
            return None
        return os.read(fd, longest), found
    except OSError:
        return None
    finally:
        os.close(fd)


def forget_ours(lab: Path, name: re.Pattern[str]) -> None:
    """Remove those of our own whose claim is no more, of workers that were killed; by uid and nonce in their name."""
    with suppress(OSError):
        names = os.listdir(lab)
        there = {nonce(one) for one in names if one.startswith("c.")}
        for one in names:
            match = name.fullmatch(one.removeprefix("."))
            if match and int(match[1]) == os.geteuid() and match[2] not in there:
                with suppress(OSError):
                    os.unlink(lab / one)
