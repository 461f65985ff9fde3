"""Users by their names."""

from __future__ import annotations

import pwd
from functools import lru_cache


@lru_cache(maxsize=1024)  # a name may come from a directory server on the network
def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
