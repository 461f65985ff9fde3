"""Users by their names."""

from __future__ import annotations

import os
import pwd
from functools import lru_cache
from pathlib import Path

PEOPLE = range(1000, 65534)  # as login.defs has it; below are services, above `nobody` and containers
NO_SHELL = ("nologin", "false")


@lru_cache(maxsize=1024)  # a name may come from a directory server on the network
def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def others_have_accounts() -> bool:
    """Whether anybody else could log in here: by the list of users, and by homes where a directory server has it."""
    mine = os.getuid()
    listed = (user.pw_uid for user in pwd.getpwall() if not user.pw_shell.endswith(NO_SHELL))
    return any(uid in PEOPLE and uid != mine for uid in (*listed, *_owners_of_homes()))


def _owners_of_homes() -> list[int]:
    try:
        return [home.stat().st_uid for home in Path("/home").iterdir()]
    except OSError:
        return []
