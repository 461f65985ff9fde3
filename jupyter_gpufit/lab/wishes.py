"""Wishes: a user asks another to release a device. The owner is told, and nothing acts on it by itself.

A wish is a file of the asker's, w.<uid>.<the claim's nonce>.<nonce>, with the claim's id as its text. The asker is
st_uid. There is at most one per asker and claim that counts, and none that outlives its claim.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .record import Claim

LONGEST = 64  # bytes
MOST_LOOKED_AT = 64  # files about one claim: somebody may have put there as many as they like
_NAME = re.compile(r"w\.([0-9]{1,10})\.([0-9a-f]{16})\.[0-9a-f]{8}")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO in our way must not make us wait


@dataclass(frozen=True)
class Wish:
    """Somebody would like what a claim holds."""

    claim: str  # its id
    uid: int  # who wishes; the kernel's word
    since: float  # seconds since 1970; the kernel's word


def read_wishes(lab: Path, claims: Iterable[Claim]) -> dict[str, tuple[Wish, ...]]:
    """The wishes about these claims, by the claim's id, oldest first."""
    wanted = {_nonce(claim.id): claim.id for claim in claims}
    found: dict[str, dict[int, Wish]] = {}
    looked: dict[str, int] = {}
    for name in os.listdir(lab):
        match = _NAME.fullmatch(name) if name.startswith("w.") else None
        id = wanted.get(match[2]) if match else None
        if match is None or id is None or int(match[1]) in found.get(id, {}):
            continue
        looked[id] = looked.get(id, 0) + 1
        if looked[id] <= MOST_LOOKED_AT and (wish := _read(lab, name, int(match[1]), id)) is not None:
            found.setdefault(id, {})[wish.uid] = wish
    return {id: tuple(sorted(wishes.values(), key=lambda wish: wish.since)) for id, wishes in found.items()}


def make_wish(lab: Path, claim: Claim) -> bool:
    """Ask the claim's owner to release it; False when we have asked already."""
    if any(wish.uid == os.geteuid() for wish in read_wishes(lab, [claim]).get(claim.id, ())):
        return False
    path = lab / f"w.{os.geteuid()}.{_nonce(claim.id)}.{secrets.token_hex(4)}"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        os.write(fd, claim.id.encode())
        os.fchmod(fd, 0o644)  # against the umask
    except OSError:
        os.unlink(path)  # without its text it asks nobody, and takes room where there is none
        raise
    finally:
        os.close(fd)
    return True


def forget_old_wishes(lab: Path, claims: Iterable[Claim]) -> None:
    """Remove our own wishes about claims that are no more."""
    there = {_nonce(claim.id) for claim in claims}
    for name in os.listdir(lab):
        match = _NAME.fullmatch(name)
        if match and int(match[1]) == os.geteuid() and match[2] not in there:
            with suppress(OSError):
                os.unlink(lab / name)


def new_wishes(lab: Path, claim: Claim, told: Mapping[int, Wish]) -> list[Wish]:
    """The wishes of others about this claim that are not among those told already, by uid."""
    wishes = read_wishes(lab, [claim]).get(claim.id, ())
    return [wish for wish in wishes if wish.uid != claim.uid and wish.uid not in told]


def _nonce(claim: str) -> str:
    return claim.rpartition(".")[2]


def _read(lab: Path, name: str, uid: int, claim: str) -> Wish | None:
    """The wish in a file; None for what its name's user did not write about this claim."""
    try:
        fd = os.open(f"{lab}/{name}", _READ)
    except OSError:
        return None
    try:
        found = os.fstat(fd)
        # The text counts and not only the name: a hard link gives somebody's other file any name.
        if not stat.S_ISREG(found.st_mode) or found.st_uid != uid or os.read(fd, LONGEST) != claim.encode():
            return None
        return Wish(claim, uid, found.st_ctime)
    except OSError:
        return None
    finally:
        os.close(fd)
