"""Wishes: a user asks another to release a device. The owner is told, and nothing acts on it by itself.

A wish is a file of the asker's, w.<uid>.<the claim's nonce>.<nonce>, with the claim's id as its text. The asker is
st_uid. There is at most one per asker and claim that counts, and none that outlives its claim.

Root's may be an order, which has a second line: the holder then saves its job and leaves its device, by itself. From
anybody else the same text is no wish at all.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .about_claims import nonce, read_written_by
from .record import Claim

LONGEST = 64  # bytes
ORDER = "\nrelease"
MOST_LOOKED_AT = 64  # files about one claim: somebody may have put there as many as they like
_NAME = re.compile(r"w\.([0-9]{1,10})\.([0-9a-f]{16})\.[0-9a-f]{8}")


@dataclass(frozen=True)
class Wish:
    """Somebody would like what a claim holds."""

    claim: str  # its id
    uid: int  # who wishes; the kernel's word
    since: float  # seconds since 1970; the kernel's word
    orders: bool = False  # root's, who does not only ask


def read_wishes(lab: Path, claims: Iterable[Claim]) -> dict[str, tuple[Wish, ...]]:
    """The wishes about these claims, by the claim's id, oldest first."""
    wanted = {nonce(claim.id): claim.id for claim in claims}
    found: dict[str, dict[int, Wish]] = {}
    looked: dict[str, int] = {}
    for name in os.listdir(lab):
        match = _NAME.fullmatch(name) if name.startswith("w.") else None
        id = wanted.get(match[2]) if match else None
        if match is None or id is None:
            continue
        uid = int(match[1])
        known = found.get(id, {}).get(uid)
        if known is not None and (uid != 0 or known.orders):
            continue
        looked[id] = looked.get(id, 0) + (uid != 0)
        # However many names others make, root's word is found among them.
        if _is_roots(lab, name) if uid == 0 else looked[id] <= MOST_LOOKED_AT:
            wish = _read(lab, name, uid, id)
            if wish is not None and (known is None or wish.orders):
                found.setdefault(id, {})[uid] = wish
    return {id: tuple(sorted(wishes.values(), key=lambda wish: wish.since)) for id, wishes in found.items()}


def make_wish(lab: Path, claim: Claim, *, order: bool = False) -> bool:
    """Ask the claim's owner to release it, or as root order it; False when we have done so already."""
    if any(wish.uid == os.geteuid() and wish.orders >= order for wish in read_wishes(lab, [claim]).get(claim.id, ())):
        return False
    path = lab / f"w.{os.geteuid()}.{nonce(claim.id)}.{secrets.token_hex(4)}"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        os.write(fd, f"{claim.id}{ORDER if order else ''}".encode())
        os.fchmod(fd, 0o644)  # against the umask
    except OSError:
        os.unlink(path)  # without its text it asks nobody, and takes room where there is none
        raise
    finally:
        os.close(fd)
    return True


def is_ordered(lab: Path, claim: Claim) -> bool:
    """Whether root wants the claim's job saved, and its devices left."""
    try:
        return any(wish.orders for wish in read_wishes(lab, [claim]).get(claim.id, ()))
    except OSError:
        return False


def forget_old_wishes(lab: Path, claims: Iterable[Claim]) -> None:
    """Remove our own wishes about claims that are no more."""
    there = {nonce(claim.id) for claim in claims}
    for name in os.listdir(lab):
        match = _NAME.fullmatch(name)
        if match and int(match[1]) == os.geteuid() and match[2] not in there:
            with suppress(OSError):
                os.unlink(lab / name)


def new_wishes(lab: Path, claim: Claim, told: Mapping[int, Wish]) -> list[Wish]:
    """The wishes of others about this claim that are not among those told already, by uid."""
    wishes = read_wishes(lab, [claim]).get(claim.id, ())
    return [wish for wish in wishes if (wish.uid != claim.uid or wish.orders) and not _told(wish, told)]


def _told(wish: Wish, told: Mapping[int, Wish]) -> bool:
    before = told.get(wish.uid)
    return before is not None and before.orders >= wish.orders


def _is_roots(lab: Path, name: str) -> bool:
    try:
        return os.lstat(f"{lab}/{name}").st_uid == 0
    except OSError:
        return False


def _read(lab: Path, name: str, uid: int, claim: str) -> Wish | None:
    """The wish in a file; None for what its name's user did not write about this claim."""
    if (written := read_written_by(uid, lab / name, LONGEST)) is None:
        return None
    # The text counts and not only the name: a hard link gives somebody's other file any name.
    text = written[0].decode(errors="replace")
    if text != claim and (uid != 0 or text != claim + ORDER):
        return None
    return Wish(claim, uid, written[1].st_ctime, orders=text != claim)
