"""What the lab's administrator decides: /etc/gpufit/policy.toml, which only root can write; docs/administrators.md.

A policy says what holds for everybody, for Unix groups and for single users: `allowed` puts that together for one of
them, and `barred` says whether anything of theirs may start at this moment. Both are pure. How the file is read:
policy_file.py.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ..devices.device import Device
from ..system.memory import most_for_plans
from ..system.users import groups_of, user_name
from ..units import format_bytes, format_duration

DAY = 86400.0
WEEK = 7 * DAY
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
RESERVE = 10  # percent of a GPU that stays free


@dataclass(frozen=True)
class QuietHours:
    """Hours in which no job is started; one that ends after midnight belongs to the day on which it began."""

    days: frozenset[int]  # 0: Monday
    begin: int  # minutes of the day
    end: int

    def left(self, weekday: int, minute: int) -> int | None:
        """Minutes until their end; None: they are not now."""
        length = (self.end - self.begin) % 1440 or 1440
        since = (minute - self.begin) % 1440
        began = weekday if minute >= self.begin else (weekday - 1) % 7
        return length - since if since < length and began in self.days else None

    def __str__(self) -> str:
        days = "" if len(self.days) == 7 else ",".join(DAYS[day] for day in sorted(self.days)) + " "
        return f"{days}{_clock(self.begin)}-{_clock(self.end)}"


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


@dataclass(frozen=True, kw_only=True)
class UserPolicy:
    """What one user may."""

    priority: int = 0
    devices: int | None = None  # at once; None: no limit
    memory: int | None = None  # bytes at once
    hours: float | None = None  # device-hours in seven days
    quantum: float | None = None  # seconds that a job may keep its device while others wait; None: to its end
    idle: float = 600.0  # seconds without computing after which a holder is marked for all
    longest_idle: float | None = None  # seconds after which it is saved and released; None: never
    holds_on: bool = True  # a job that cannot be saved, when its turn is over
    quiet: tuple[QuietHours, ...] = ()


SETTINGS = tuple(one.name for one in fields(UserPolicy))
Given = Mapping[str, Any]  # some of these settings, by name


@dataclass(frozen=True, kw_only=True)
class Policy:
    half_life: float = 7 * DAY  # seconds
    entry_penalty: float = 600.0  # device-seconds
    reserve: int = RESERVE  # percent of each GPU
    host: int | None = None  # bytes of the host's memory that all plans together may take; None: all but a reserve
    notice: float = 120.0  # seconds in which one is told that one's turn will end
    kept_out: tuple[str, ...] = ()  # labels or UUIDs of devices that the lab gives to nobody
    drained: tuple[str, ...] = ()  # of those on which nothing starts any more, and what can be saved leaves
    default: Given = field(default_factory=dict)
    groups: Mapping[str, Given] = field(default_factory=dict)  # in the order of the file
    users: Mapping[str, Given] = field(default_factory=dict)
    warning: str = ""  # why the administrator's file is not followed as it stands
    _known: dict[object, Allowed] = field(default_factory=dict, compare=False, repr=False)

    def of(self, uid: int) -> UserPolicy:
        return self.allowed(uid).policy

    def allowed(self, uid: int) -> Allowed:
        """What applies to this machine's user of that number."""
        key = uid, groups_of(uid) if self.groups else frozenset()
        if key not in self._known:  # asked for every ticket at every look
            self._known[key] = allowed(self, (user_name(uid), str(uid)), key[1])
        return self._known[key]

    def keeps_out(self, device: Device) -> bool:
        return _names(device, self.kept_out)

    def drains(self, device: Device) -> bool:
        return _names(device, self.drained)

    def closed(self, device: Device) -> str:
        """Why nothing may start on a device: empty, or a part of a sentence."""
        if self.keeps_out(device):
            return "is kept out of the lab by its policy"
        return "is drained by the lab's policy, so that nothing starts there" if self.drains(device) else ""

    @property
    def for_plans(self) -> int:
        """Bytes of the host's memory."""
        return most_for_plans() if self.host is None else self.host

    @property
    def takes_turns(self) -> bool:
        """Whether anybody's turn may end before their job does."""
        tables = (self.default, *self.groups.values(), *self.users.values())
        return bool(self.drained) or any("quantum" in given for given in tables)


def _names(device: Device, words: Collection[str]) -> bool:
    return bool({device.uuid.lower(), device.label.lower()} & {word.lower() for word in words})


@dataclass(frozen=True)
class Allowed:
    """What applies to one user, and where each of it stands in the file."""

    policy: UserPolicy
    by: Mapping[str, str]  # "default", "groups.students", "users.ada", by setting; others have our defaults


def allowed(policy: Policy, names: Collection[str], groups: Collection[str]) -> Allowed:
    """What applies to a user of these names (a name, a uid) in these groups; pure.

    The default holds where nothing else is said, then the user's groups in the order of the file, of which a later one
    replaces an earlier one's word, then what is said of the user alone.
    """
    said: dict[str, Any] = {}
    by: dict[str, str] = {}
    for where, given in _tables(policy, names, groups):
        said |= given
        by |= dict.fromkeys(given, where)
    return Allowed(UserPolicy(**said), by)


def _tables(policy: Policy, names: Collection[str], groups: Collection[str]) -> Iterator[tuple[str, Given]]:
    yield "default", policy.default
    yield from ((f"groups.{name}", given) for name, given in policy.groups.items() if name in groups)
    yield from ((f"users.{name}", given) for name, given in policy.users.items() if name in names)


@dataclass(frozen=True)
class UserState:
    """What a user's limits are held against."""

    weekday: int = 0  # of now, 0: Monday
    minute: int = 0  # of the day
    hours: float = 0.0  # device-hours of the last seven days
    devices: int = 0  # held now
    memory: int = 0  # bytes held now


def state_at(now: float, hours: float = 0.0) -> UserState:
    """The state of one who holds nothing, at that moment on this machine's clock."""
    local = time.localtime(now)
    return UserState(local.tm_wday, local.tm_hour * 60 + local.tm_min, hours)


def whom(uid: int, reader: int | None) -> str:
    """ "you", or "ada": a user whose limits a sentence is about"""
    return "you" if uid == reader else user_name(uid)


def barred(allowed: UserPolicy, state: UserState, who: str = "you") -> str:
    """Why nothing of a user's may start now, whatever it asks: empty, or a part of a sentence; pure."""
    whose = "yours" if who == "you" else f"{who}'s"
    for quiet in allowed.quiet:
        if (left := quiet.left(state.weekday, state.minute)) is not None:
            return (
                f"the lab's policy starts no job of {whose} for another {format_duration(left * 60)} (quiet: {quiet})"
            )
    if allowed.hours is not None and state.hours >= allowed.hours:
        return (
            f"the lab's policy allows {who} {allowed.hours:g} device-hours in seven days ({state.hours:.1f} used); new"
            " jobs can start when older use is more than seven days ago"
        )
    return ""


def exceeded(allowed: UserPolicy, state: UserState, count: int, needed: int | None, who: str = "you") -> str:
    """Which limit a job on so many devices, with so many bytes on each, would exceed; pure."""
    if allowed.devices is not None and state.devices + count > allowed.devices:
        many = f"{allowed.devices} device{'' if allowed.devices == 1 else 's'}"
        return f"the lab's policy allows {who} {many} at once"
    if allowed.memory is None:
        return ""
    most = f"the lab's policy allows {who} {format_bytes(allowed.memory)} at once"
    if needed is None:
        return f"{most}: say how much this job needs with --memory"
    return most if state.memory + needed * count > allowed.memory else ""


def words(policy: UserPolicy, setting: str) -> str:
    """One setting as a sentence says it."""
    value = getattr(policy, setting)
    match setting, value:
        case "priority", _:
            return "like everybody" if value == 0 else f"{value}: {'before' if value > 0 else 'after'} those with 0"
        case (("devices" | "memory" | "hours"), None):
            return "no limit"
        case "devices", _:
            return f"{value} at once"
        case "memory", _:
            return f"{format_bytes(value)} at once"
        case "hours", _:
            return f"{value:g} device-hours in seven days"
        case "quantum", None:
            return "a job runs to its end"
        case "quantum", _:
            return f"{format_duration(value)}; then, if others wait, a job is saved, queues again and goes on"
        case "idle", _:
            return f"who does not compute for {format_duration(value)} is shown to all"
        case "longest_idle", None:
            return "who does not compute may keep its device"
        case "longest_idle", _:
            return f"who does not compute for {format_duration(value)} is saved and released"
        case "holds_on", _:
            return "a job that cannot be saved keeps its device" if value else "a job that cannot be saved is stopped"
    return ", ".join(map(str, value)) or "never"
