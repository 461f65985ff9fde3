"""The administrator's policy: what applies to whom, followed when root wrote it, and kept while the file is broken."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_gpufit.lab import policy_file
from jupyter_gpufit.lab.policy import (
    DAY,
    DAYS,
    SETTINGS,
    Policy,
    UserPolicy,
    UserState,
    allowed,
    barred,
    exceeded,
    words,
)
from jupyter_gpufit.lab.policy_file import load_policy, parse_policy
from jupyter_gpufit.testing import fake_device
from jupyter_gpufit.units import GiB


def write(path: Path, text: str) -> None:
    """As an administrator does, who takes longer than the clock of files needs for a step."""
    later = path.stat().st_mtime_ns + 10**9 if path.exists() else None
    path.write_text(text)
    if later is not None:
        os.utime(path, ns=(later, later))


TEXT = """
half_life = 2
entry_penalty = 60
reserve = 5
kept_out = ["GPU-a"]
drained = ["1"]

[default]
quantum = "30min"
hours = 40

[groups.students]
quiet = ["mon-fri 08:00-18:00"]
hours = 10

[groups.thesis]
hours = 20

[users.root]
priority = 1
devices = 2

[users.61001]
memory = "60GiB"
"""


@pytest.fixture(autouse=True)
def _forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No other test's last good policy is this one's."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield
    policy_file._last_good.clear()
    policy_file._load.cache_clear()


def test_it_is_read() -> None:
    policy = parse_policy(TEXT)
    assert (policy.half_life, policy.entry_penalty, policy.reserve) == (2 * DAY, 60, 5)
    assert policy.of(0) == UserPolicy(priority=1, devices=2, quantum=1800, hours=40)
    assert policy.of(61001) == UserPolicy(memory=60 * GiB, quantum=1800, hours=40)
    assert policy.of(61002) == UserPolicy(quantum=1800, hours=40)
    assert policy.takes_turns and not Policy().takes_turns


def test_a_group_comes_before_the_default_and_a_user_before_both() -> None:
    found = allowed(parse_policy(TEXT), ("ada", "1000"), {"thesis", "students"})
    assert found.policy.hours == 20 and str(found.policy.quiet[0]) == "mon,tue,wed,thu,fri 08:00-18:00"
    assert found.by == {"quantum": "default", "hours": "groups.thesis", "quiet": "groups.students"}


def test_devices_are_kept_out_or_drained_by_label_or_uuid() -> None:
    policy = parse_policy(TEXT)
    first, second, third = (fake_device(f"GPU-{letter}", label=str(at)) for at, letter in enumerate("abc"))
    assert policy.keeps_out(first) and "kept out" in policy.closed(first)
    assert policy.drains(second) and "drained" in policy.closed(second)
    assert policy.closed(third) == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("half_live = 2", "line 1: the file has no setting 'half_live'. Did you mean half_life"),
        ("half_life = 0", "line 1: half_life is 0, and must be a number above zero"),
        ("\nhalf_life = 0.001", "line 2: half_life is in days, and less than an hour is no memory"),
        ("entry_penalty = true", "line 1: entry_penalty is True"),
        ("reserve = 95", "line 1: reserve is 95, and must be a whole number of percent, from 0 to 90"),
        ("users = 3", "line 1: users is not a table; write [users.NAME]"),
        ("[users]\nada = 3", "line 2: users.ada is not a table; write [users.ada]"),
        ("[users.ada]\npriorty = 1", "line 2: [users.ada] has no setting 'priorty'. Did you mean priority?"),
        ("quantum = 3", "line 1: the file has no setting 'quantum'. It belongs below a line [default]"),
        ("[default]\nx = 1", "line 2: [default] has no setting 'x'. It may have: priority, devices, memory"),
        ("[users.ada]\npriority = 1.5", "line 2: users.ada: priority is 1.5, and must be a whole number"),
        ("[users.ada]\ndevices = -1", "line 2: users.ada: devices is -1"),
        ("[users.ada]\nmemory = 'lots'", "line 2: users.ada: memory: 'lots' is not an amount of memory"),
        ("[default]\n# quantum\nquantum = 30", "line 3: default: quantum: '30' is not a duration such as 90s, 30min"),
        ("[default]\nquiet = '8-18'", "line 2: default: quiet is '8-18', and must be hours such as"),
        ("[default]\nquiet = 'fun 08:00-18:00'", "days are mon, tue"),
        ("[default]\nidle = '1h'\nlongest_idle = '5min'", "line 3: default: longest_idle is less than idle"),
        ("[users.bob]\ndevices = 1\n[users.ada]\ndevices = -1", "line 4: users.ada: devices"),
        ("users.ada = {devices = -1}", "line 1: users.ada: devices"),
        ("drained = '1'", "line 1: drained is '1', and must be a list"),
        ("half_life =", "it is not TOML: "),
        ("half_life = " + "[" * 9999, "it is not TOML: "),
    ],
)
def test_what_is_not_understood_is_named_with_its_line(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        parse_policy(text)


def test_a_file_that_was_never_good_is_ignored_as_a_whole_and_said(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    write(path, "half_live = 2")
    policy = load_policy(path)
    assert policy.warning.startswith(f"{path} is ignored: ") and "Until then there is no policy." in policy.warning
    assert policy == Policy(warning=policy.warning)


def test_no_file_is_no_policy(tmp_path: Path) -> None:
    assert load_policy(tmp_path / "policy.toml") == Policy()


AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: files of root's. Run as root, in a container.")


@AS_ROOT
def test_only_root_makes_policy(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    write(path, TEXT)
    assert load_policy(path).half_life == 2 * DAY
    path.chmod(0o666)
    assert "somebody other than root could have written it" in load_policy(path).warning
    path.chmod(0o644)
    os.chown(path, 61001, 0)
    assert "somebody other than root could have written it" in load_policy(path).warning


@AS_ROOT
def test_a_fifo_in_its_place_holds_nobody_up(tmp_path: Path) -> None:
    for name in ("policy.toml", "drained"):
        os.mkfifo(tmp_path / name, 0o644)
    found = load_policy(tmp_path / "policy.toml")
    assert "it is not a file" in found.warning and found.drained == ()


@AS_ROOT
def test_a_change_is_seen_at_once(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    write(path, "half_life = 1")
    assert load_policy(path).half_life == DAY
    path.unlink()
    write(path, "half_life = 3")
    assert load_policy(path).half_life == 3 * DAY


@AS_ROOT
@pytest.mark.parametrize("remembers", [True, False], ids=["this process", "a later one"])
def test_a_broken_file_keeps_the_last_good_one(remembers: bool, tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    write(path, "half_life = 3")
    load_policy(path)
    write(path, "half_life = 2")
    load_policy(path)
    write(path, "half_life = 'two'")
    if not remembers:
        policy_file._last_good.clear()
    kept = load_policy(path)
    assert kept.half_life == 2 * DAY
    assert kept.warning == (
        f"{path} is ignored: line 1: half_life is 'two', and must be a number above zero. Mend it there; `gpufit lab"
        " check` reads it again. The policy of before holds until then."
    )


@AS_ROOT
def test_nobody_else_makes_the_last_good_one(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    write(path, "half_life = 2")
    load_policy(path)
    os.chown(tmp_path / "policy.last-good.toml", 61001, 0)
    write(path, "half_life = 'two'")
    policy_file._last_good.clear()
    assert load_policy(path).half_life == Policy().half_life


GIVEN = {
    "priority": st.integers(-2, 2),
    "devices": st.integers(0, 4),
    "memory": st.integers(0, 8),
    "hours": st.floats(0.1, 99),
    "quantum": st.floats(1, 99),
    "idle": st.floats(1, 99),
    "longest_idle": st.floats(1, 99),
    "holds_on": st.booleans(),
}
tables = st.fixed_dictionaries({}, optional=GIVEN)
people = st.dictionaries(st.sampled_from(["ada", "bob", "eve"]), tables)


@settings(max_examples=200)
@given(tables, people, people, st.sampled_from(["ada", "bob", "eve"]), st.sets(st.sampled_from(["ada", "bob", "eve"])))
def test_the_last_word_on_each_setting_holds(
    default: dict[str, Any],
    groups: dict[str, dict[str, Any]],
    users: dict[str, dict[str, Any]],
    user: str,
    member_of: set[str],
) -> None:
    """Against a plain model; and what is said of others changes nothing."""
    policy = Policy(default=default, groups=groups, users=users)
    found = allowed(policy, [user], member_of)
    said = [default, *(given for name, given in groups.items() if name in member_of), users.get(user, {})]
    for name in SETTINGS:
        spoken = [given[name] for given in said if name in given]
        assert getattr(found.policy, name) == (spoken[-1] if spoken else getattr(UserPolicy(), name))
        assert (name in found.by) == bool(spoken)
        assert words(found.policy, name)
    alone = Policy(default=default, groups={n: g for n, g in groups.items() if n in member_of}, users={user: said[-1]})
    assert allowed(alone, [user], member_of).policy == found.policy


@settings(max_examples=200)
@given(st.integers(0, 6), st.integers(0, 1439), st.integers(0, 1439), st.integers(0, 6), st.integers(0, 1439))
def test_quiet_hours_begin_and_end_and_last_no_longer(day: int, begin: int, end: int, weekday: int, now: int) -> None:
    """Minute by minute from their beginning: what is left of them goes down to one, and then they are over."""
    text = f"{DAYS[day]} {begin // 60}:{begin % 60:02}-{end // 60}:{end % 60:02}"
    [quiet] = parse_policy(f"[default]\nquiet = '{text}'").of(61001).quiet
    long = (end - begin) % 1440 or 1440
    since = ((weekday - day) % 7 * 1440 + now - begin) % (7 * 1440)
    assert quiet.left(weekday, now) == (long - since if since < long else None)
    why = barred(UserPolicy(quiet=(quiet,)), UserState(weekday, now))
    assert bool(why) == (since < long) and (not why or "starts no job of yours for another" in why)


def test_a_limit_names_whom_it_is_about() -> None:
    used = UserState(hours=12)
    always = parse_policy("[default]\nquiet = '00:00-24:00'").of(61001)
    assert barred(UserPolicy(hours=10), used, "ada") == (
        "the lab's policy allows ada 10 device-hours in seven days (12.0 used); new jobs can start when older use is"
        " more than seven days ago"
    )
    assert "starts no job of ada's for another" in barred(always, used, "ada")
    assert (
        exceeded(UserPolicy(devices=2), UserState(devices=2), 1, 1) == "the lab's policy allows you 2 devices at once"
    )
    assert exceeded(UserPolicy(memory=GiB), used, 1, None, "ada").startswith("the lab's policy allows ada 1.0 GiB at")


@settings(max_examples=200)
@given(
    st.fixed_dictionaries({}, optional=GIVEN), st.integers(0, 4), st.integers(0, 8), st.floats(0, 99), st.integers(1, 3)
)
def test_whoever_holds_more_may_never_have_more(
    given: dict[str, Any], devices: int, memory: int, hours: float, count: int
) -> None:
    limits = UserPolicy(**given)
    less = UserState(hours=hours / 2, devices=devices // 2, memory=memory // 2)
    more = UserState(hours=hours, devices=devices, memory=memory)
    for needed in (None, 1, 3):
        assert not exceeded(limits, less, count, needed) or exceeded(limits, more, count, needed)
    assert not barred(limits, less) or barred(limits, more)
