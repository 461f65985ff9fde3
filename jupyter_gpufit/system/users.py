"""Users by their names."""

from __future__ import annotations

import grp
import os
import pwd
import time
from functools import lru_cache
from pathlib import Path

PEOPLE = range(1000, 65534)  # as login.defs has it; below are services, above `nobody` and containers
NO_SHELL = ("nologin", "false")
LAST = 300.0  # seconds for which groups and lists of users are taken as they were


@lru_cache(maxsize=1024)  # a name may come from a directory server on the network
def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def groups_of(uid: int) -> frozenset[str]:
    """The names of a user's Unix groups, which are asked for anew every few minutes."""
    return _groups_of(uid, int(time.monotonic() // LAST))


@lru_cache(maxsize=1024)
def _groups_of(uid: int, _when: int) -> frozenset[str]:
    try:
        user = pwd.getpwuid(uid)
        numbers = os.getgrouplist(user.pw_name, user.pw_gid)
    except (KeyError, OSError):
        return frozenset()
    return frozenset(name for number in numbers if (name := _group_name(number)))


def _group_name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return ""


def others_have_accounts() -> bool:
    """Whether anybody else could log in here: by the list of users, and by homes where a directory server has it.

    It is asked for anew every few minutes: the list may be long, and come over the network.
    """
    return _others_have_accounts(os.getuid(), int(time.monotonic() // LAST))


@lru_cache(maxsize=1)
def _others_have_accounts(mine: int, _when: int) -> bool:
    listed = (user.pw_uid for user in pwd.getpwall() if not user.pw_shell.endswith(NO_SHELL))
    return any(uid in PEOPLE and uid != mine for uid in (*listed, *_owners_of_homes()))


def _owners_of_homes() -> list[int]:
    try:
        return [home.stat().st_uid for home in Path("/home").iterdir()]
    except OSError:
        return []
