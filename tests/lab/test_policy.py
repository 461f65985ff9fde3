"""The administrator's policy: followed when root wrote it, and otherwise ignored aloud."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jupyter_gpufit.lab.policy import DAY, Policy, UserPolicy, load_policy, parse_policy
from jupyter_gpufit.units import GiB

TEXT = """
half_life = 2
entry_penalty = 60

[users.root]
priority = 1
devices = 2

[users.61001]
memory = "60GiB"
"""


def test_it_is_read() -> None:
    policy = parse_policy(TEXT)
    assert (policy.half_life, policy.entry_penalty) == (2 * DAY, 60)
    assert policy.of(0) == UserPolicy(priority=1, devices=2)
    assert policy.of(61001) == UserPolicy(memory=60 * GiB)
    assert policy.of(61002) == UserPolicy()


@pytest.mark.parametrize(
    "text",
    [
        "half_live = 2",
        "half_life = 0",
        "half_life = 0.001",
        "entry_penalty = true",
        "users = 3",
        "[users]\nada = 3",
        "[users.ada]\npriorty = 1",
        "[users.ada]\npriority = 1.5",
        "[users.ada]\ndevices = -1",
        "[users.ada]\nmemory = 'lots'",
        "half_life =",
    ],
)
def test_what_is_not_understood_is_ignored_as_a_whole_and_said(text: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(text)
    policy = load_policy(path)
    assert policy.warning.startswith(f"{path} is ignored: ")
    assert policy == Policy(warning=policy.warning)


def test_no_file_is_no_policy(tmp_path: Path) -> None:
    assert load_policy(tmp_path / "policy.toml") == Policy()


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: files of root's. Run as root, in a container.")
def test_only_root_makes_policy(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(TEXT)
    assert load_policy(path).half_life == 2 * DAY
    path.chmod(0o666)
    assert "somebody other than root could have written it" in load_policy(path).warning
    path.chmod(0o644)
    os.chown(path, 61001, 0)
    assert "somebody other than root could have written it" in load_policy(path).warning


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: files of root's. Run as root, in a container.")
def test_a_change_is_seen_at_once(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("half_life = 1")
    assert load_policy(path).half_life == DAY
    path.unlink()
    path.write_text("half_life = 3")
    assert load_policy(path).half_life == 3 * DAY
