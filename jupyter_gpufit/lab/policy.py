"""What the lab's administrator decides for everybody: /etc/gpufit/policy.toml, which only root can write.

half_life = 7             # days after which use counts half
entry_penalty = 600       # device-seconds that a claim costs from its first moment

[users.alice]             # a name or a uid
priority = 1              # before everybody with less; default 0
devices = 2               # at once; default: as many as there are
memory = "60GiB"          # at once, summed over the devices
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import BadQuantity
from ..quantities import parse_bytes
from ..system.users import user_name

POLICY = Path("/etc/gpufit/policy.toml")
DAY = 86400.0


@dataclass(frozen=True, kw_only=True)
class UserPolicy:
    priority: int = 0
    devices: int | None = None  # None: no limit
    memory: int | None = None  # bytes


@dataclass(frozen=True, kw_only=True)
class Policy:
    half_life: float = 7 * DAY  # seconds
    entry_penalty: float = 600.0  # device-seconds
    users: Mapping[str, UserPolicy] = field(default_factory=dict)
    warning: str = ""  # why the administrator's file is not followed

    def of(self, uid: int) -> UserPolicy:
        return self.users.get(user_name(uid)) or self.users.get(str(uid)) or UserPolicy()


def load_policy(path: Path = POLICY) -> Policy:
    """The policy that holds now; a file that cannot be followed is ignored as a whole, with a warning that says why."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return Policy()
    except OSError as error:
        return Policy(warning=f"{path} is ignored: {error.strerror}.")
    return _load(path, found.st_uid, found.st_mode, found.st_mtime_ns, found.st_ino)


@lru_cache(maxsize=8)  # asked at every look at the queue
def _load(path: Path, uid: int, mode: int, *_version: int) -> Policy:
    if uid != 0 or mode & (stat.S_IWGRP | stat.S_IWOTH):
        return Policy(warning=f"{path} is ignored: somebody other than root could have written it.")
    try:
        return parse_policy(path.read_text())
    except (OSError, ValueError, BadQuantity) as error:
        return Policy(warning=f"{path} is ignored: {error}")


def parse_policy(text: str) -> Policy:
    """Read the file's text; raise ValueError or BadQuantity for what is not understood."""
    given = tomllib.loads(text)
    _only(given, {"half_life", "entry_penalty", "users"}, "the file")
    users = given.get("users", {})
    if not isinstance(users, dict):
        raise ValueError("users is not a table.")
    half_life = _positive(given.get("half_life", 7), "half_life")
    if half_life < 1 / 24:
        raise ValueError("half_life is in days, and less than an hour is no memory.")
    return Policy(
        half_life=half_life * DAY,
        entry_penalty=_positive(given.get("entry_penalty", 600), "entry_penalty"),
        users={name: _user(name, chosen) for name, chosen in users.items()},
    )


def _user(name: str, given: Any) -> UserPolicy:
    _only(given, {"priority", "devices", "memory"}, f"users.{name}")
    priority, devices = given.get("priority", 0), given.get("devices")
    if type(priority) is not int or (devices is not None and (type(devices) is not int or devices < 0)):
        raise ValueError(f"users.{name}: priority and devices are whole numbers.")
    memory = parse_bytes(str(given["memory"])) if "memory" in given else None
    return UserPolicy(priority=priority, devices=devices, memory=memory)


def _only(given: Any, known: set[str], where: str) -> None:
    if not isinstance(given, dict):
        raise ValueError(f"{where} is not a table.")
    if unknown := sorted(set(given) - known):
        raise ValueError(f"{where} has no setting {unknown[0]!r}.")


def _positive(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ValueError(f"{name} is not a number above zero.")
    return float(value)
