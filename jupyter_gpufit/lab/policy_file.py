"""The administrator's file: read without a restart, refused as a whole with the line and the next step, and kept.

While what stands there cannot be followed, the last good text holds: the one this process has read, or the copy that
root's processes leave beside the file (`gpufit lab check` does), or the one this user's have left in their own state.
A user who forges their own copy deceives their own jobs, and only while the file is broken.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import BadQuantity, did_you_mean
from ..quantities import parse_bytes, parse_seconds
from ..system.directories import home
from ..system.files import write_whole
from .policy import DAY, DAYS, SETTINGS, Policy, QuietHours, UserPolicy

POLICY = Path("/etc/gpufit/policy.toml")
VARIABLE = "GPUFIT_POLICY"  # where it is instead
_TOP = ("half_life", "entry_penalty", "reserve", "host", "notice", "kept_out", "drained", "default", "groups", "users")
_NEXT = "Mend it there; `gpufit lab check` reads it again."
_QUIET = re.compile(r"(?:([a-z]{3}(?:[-,][a-z]{3})*)\s+)?(\d\d?):(\d\d)\s*-\s*(\d\d?):(\d\d)")
_last_good: dict[Path, Policy] = {}


def policy_path() -> Path:
    """Where the file is: a machine that is an image, or a test's, has it elsewhere."""
    return Path(os.environ.get(VARIABLE) or POLICY)


def drained_path() -> Path:
    """Devices that are drained besides, a name a line: the hub's page writes it; the policy stays as it was typed."""
    return policy_path().with_name("drained")


def load_policy(path: Path | None = None) -> Policy:
    """The policy that holds now."""
    path = path or policy_path()
    policy, more = _policy(path), drained(path.with_name("drained"))
    return replace(policy, drained=(*policy.drained, *more)) if more else policy


def drained(path: Path) -> tuple[str, ...]:
    """What stands in that file, if only root can have written it."""
    try:
        found = os.stat(path)
        return _drained(path, found.st_uid, found.st_mode, found.st_mtime_ns, found.st_ino)
    except OSError:
        return ()


@lru_cache(maxsize=8)
def _drained(path: Path, uid: int, mode: int, *_version: int) -> tuple[str, ...]:
    if uid != 0 or mode & (stat.S_IWGRP | stat.S_IWOTH) or not stat.S_ISREG(mode):
        return ()
    lines = (line.partition("#")[0].strip() for line in path.read_text(errors="replace").splitlines())
    return tuple(filter(None, lines))


def _policy(path: Path) -> Policy:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return Policy()
    except OSError as error:
        return _kept(path, error.strerror or str(error))
    return _load(path, found.st_uid, found.st_mode, found.st_mtime_ns, found.st_ino)


@lru_cache(maxsize=8)  # asked at every look at the queue
def _load(path: Path, uid: int, mode: int, changed: int, *_version: int) -> Policy:
    if uid != 0 or mode & (stat.S_IWGRP | stat.S_IWOTH):
        return _kept(path, "somebody other than root could have written it.")
    if not stat.S_ISREG(mode):
        return _kept(path, "it is not a file.")  # to read a fifo would wait for somebody
    try:
        text = path.read_text()
        policy = parse_policy(text)
    except (OSError, ValueError) as error:
        return _kept(path, str(error))
    _last_good[path] = policy
    if (copy := _own_copy(path)) is not None:
        with suppress(OSError):  # a full disk, a home that is not there: then this process remembers it alone
            _keep(text, changed, copy)
    return policy


def _own_copy(path: Path) -> Path | None:
    if os.geteuid() == 0:
        return path.with_name("policy.last-good.toml")
    state = os.environ.get("XDG_STATE_HOME") or home(".local/state")
    return None if state is None else Path(state, "gpufit", "policy.last-good.toml")


def _keep(text: str, changed: int, copy: Path) -> None:
    with suppress(OSError):
        if os.stat(copy).st_mtime_ns == changed:
            return
    copy.parent.mkdir(parents=True, exist_ok=True)
    write_whole(copy, text)
    os.utime(copy, ns=(changed, changed))  # of two copies the newer text counts, whoever noticed it later
    copy.chmod(0o644)


def _kept(path: Path, why: str) -> Policy:
    """The last good policy, with a warning that says why it is not the file's."""
    policy = _last_good.get(path) or _from_copies(path)
    stays = "The policy of before holds until then." if policy is not None else "Until then there is no policy."
    return _warned(policy or Policy(), f"{path} is ignored: {why.rstrip('.')}. {_NEXT} {stays}")


def _warned(policy: Policy, warning: str) -> Policy:
    return Policy(**{**vars(policy), "warning": warning})


def _from_copies(path: Path) -> Policy | None:
    texts: dict[int, str] = {}
    for copy in filter(None, {path.with_name("policy.last-good.toml"), _own_copy(path)}):
        with suppress(OSError, UnicodeDecodeError), open(copy, opener=_safely) as file:
            found = os.fstat(file.fileno())
            if found.st_uid in (0, os.geteuid()) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                texts[found.st_mtime_ns] = file.read()
    with suppress(ValueError):
        return parse_policy(texts[max(texts)]) if texts else None
    return None


def _safely(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


# The text -----------------------------------------------------------------------------------------------------------


def parse_policy(text: str) -> Policy:
    """Read the file's text; raise ValueError, with the line and what may stand there, for what is not understood."""
    try:
        given = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(f"it is not TOML: {error}") from None
    _Known(text, "", _TOP).check(given)
    top = _Reader(text, "", given)
    half_life = top.take("half_life", _positive, 7.0)
    if half_life < 1 / 24:
        raise top.error("half_life", "is in days, and less than an hour is no memory")
    return Policy(
        half_life=half_life * DAY,
        entry_penalty=top.take("entry_penalty", _positive, 600.0),
        reserve=top.take("reserve", _percent, Policy.reserve),
        host=top.take("host", lambda value: parse_bytes(str(value)), None),
        notice=top.take("notice", parse_seconds, Policy.notice),
        kept_out=top.take("kept_out", _names, ()),
        drained=top.take("drained", _names, ()),
        default=_person(text, "default", given.get("default", {})),
        groups=_people(text, "groups", given.get("groups", {})),
        users=_people(text, "users", given.get("users", {})),
    )


def _people(text: str, kind: str, given: Any) -> dict[str, Mapping[str, Any]]:
    if not isinstance(given, dict):
        raise _at(text, "", kind, f"{kind} is not a table; write [{kind}.NAME]")
    return {name: _person(text, f"{kind}.{name}", said) for name, said in given.items()}


def _person(text: str, table: str, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, dict):
        parent, _, key = table.rpartition(".")
        raise _at(text, parent, key, f"{table} is not a table; write [{table}] and its settings below it")
    _Known(text, table, SETTINGS).check(given)
    reader = _Reader(text, table, given)
    said = {name: reader.take(name, read, None) for name, read in _READ.items() if name in given}
    if said.get("longest_idle") is not None and said["longest_idle"] < said.get("idle", 0):
        raise reader.error("longest_idle", "is less than idle, after which one is only shown")
    return said


class _Known:
    """The settings that a table may have."""

    def __init__(self, text: str, table: str, names: Sequence[str]) -> None:
        self._text, self._table, self._names = text, table, names

    def check(self, given: Mapping[str, Any]) -> None:
        for name in given:
            if name not in self._names:
                where = f"[{self._table}]" if self._table else "the file"
                hint = did_you_mean(name, self._names) or f" It may have: {', '.join(self._names)}."
                if not self._table and name in SETTINGS:
                    hint = " It belongs below a line [default], which is for everybody, or [groups.NAME], [users.NAME]."
                raise _at(self._text, self._table, name, f"{where} has no setting {name!r}.{hint}")


class _Reader:
    """Takes a table's values, and says where one stands that is none."""

    def __init__(self, text: str, table: str, given: Mapping[str, Any]) -> None:
        self._text, self._table, self._given = text, table, given

    def take(self, name: str, read: Callable[[Any], Any], default: Any) -> Any:
        if name not in self._given:
            return default
        try:
            return read(self._given[name])
        except BadQuantity as error:
            raise _at(self._text, self._table, name, f"{self._named(name)}: {error}") from None
        except (TypeError, ValueError) as error:
            raise self.error(name, f"is {self._given[name]!r}, and must be {error}") from None

    def error(self, name: str, why: str) -> ValueError:
        return _at(self._text, self._table, name, f"{self._named(name)} {why}")

    def _named(self, name: str) -> str:
        return f"{self._table}: {name}" if self._table else name


def _at(text: str, table: str, key: str, why: str) -> ValueError:
    line = _line_of(text, table, key)
    return ValueError(f"line {line}: {why}" if line else why)


def _line_of(text: str, table: str, key: str) -> int:
    """Where a key of a table stands; 0: it cannot be told (a table inside of a line)."""
    here, within = "", table
    mentioned = 0
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.split("#")[0].strip()
        if bare.startswith("["):
            here = bare.strip("[] ").replace('"', "").replace("'", "").replace(" ", "")
            if here == f"{within}.{key}".lstrip("."):
                return number
        name = bare.partition("=")[0].strip().strip("\"'")
        if here == within and name == key:
            return number
        if not mentioned and re.search(rf"(?<!\w){re.escape(key)}(?!\w)", bare):
            mentioned = number
    return mentioned


def _positive(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
        raise ValueError("a number above zero")
    return float(value)


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("a whole number, 0 or more")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise ValueError("a whole number")
    return value


def _percent(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= 90:
        raise ValueError("a whole number of percent, from 0 to 90")
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        raise ValueError('a list of labels or UUIDs of devices: ["0", "GPU-5f2..."]')
    return tuple(value)


def _quiet(value: Any) -> tuple[QuietHours, ...]:
    spans = [value] if isinstance(value, str) else value
    if not isinstance(spans, list):
        raise ValueError(_QUIET_WORDS)
    return tuple(_span(one) for one in spans)


_QUIET_WORDS = 'hours such as "22:00-06:00" or ["mon-fri 08:00-18:00", "sat 08:00-12:00"]'


def _span(text: Any) -> QuietHours:
    match = _QUIET.fullmatch(text.strip().lower()) if isinstance(text, str) else None
    if match is None:
        raise ValueError(_QUIET_WORDS)
    begin, end = (_minute(match[at], match[at + 1]) for at in (2, 4))
    return QuietHours(_days(match[1]), begin % 1440, end % 1440)


def _minute(hour: str, minute: str) -> int:
    if int(minute) > 59 or int(hour) * 60 + int(minute) > 1440:
        raise ValueError(_QUIET_WORDS)
    return int(hour) * 60 + int(minute)


def _days(text: str | None) -> frozenset[int]:
    found: set[int] = set()
    for part in (text or "mon-sun").split(","):
        ends = part.split("-")
        if len(ends) > 2 or not set(ends) <= set(DAYS):
            raise ValueError(f"{_QUIET_WORDS}; days are {', '.join(DAYS)}")
        first, last = DAYS.index(ends[0]), DAYS.index(ends[-1])
        found |= {(first + day) % 7 for day in range((last - first) % 7 + 1)}
    return frozenset(found)


_READ: Mapping[str, Callable[[Any], Any]] = {
    "priority": _whole,
    "devices": _count,
    "memory": lambda value: parse_bytes(str(value)),
    "hours": _positive,
    "quantum": parse_seconds,
    "idle": parse_seconds,
    "longest_idle": parse_seconds,
    "holds_on": _truth,
    "quiet": _quiet,
}
assert set(_READ) == set(SETTINGS) and UserPolicy()
