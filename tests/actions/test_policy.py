"""`gpufit lab policy`: what applies to me, from where, and what waits because of it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from jupyter_gpufit.actions.policy import policy_view
from jupyter_gpufit.errors import BadOption
from jupyter_gpufit.lab.published import publish
from jupyter_gpufit.lab.record import Hold, Request
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.units import GiB

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: root's policy. Run as root, in a container.")

TEXT = """
kept_out = ["cpu:1"]
[default]
quantum = "30min"
[users.root]
devices = 1
quiet = "00:00-24:00"
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    (tmp_path / "policy.toml").write_text(TEXT)
    (tmp_path / "lab").mkdir(mode=0o700)
    monkeypatch.setenv("GPUFIT_POLICY", str(tmp_path / "policy.toml"))
    return Settings(devices="cpu:2x4GiB", lab=str(tmp_path / "lab"))


def test_it_says_what_applies_to_me_from_where_and_what_waits(here: Settings) -> None:
    held = publish(Path(here.lab), _asks("bert"), Hold(devices=("cpu:0",), bytes=GiB, alone=False))
    waits = publish(Path(here.lab), _asks("gnn"))
    text = policy_view(here).to_text()
    waits.drop()
    held.drop()

    assert "  devices       1 at once; 1 held (users.root)" in text
    assert "  quantum       30 min; then, if others wait, a job is saved, queues again and goes on (default)" in text
    assert "  memory        no limit; 1.0 GiB held\n" in text
    assert "cpu:1 is kept out of the lab by its policy." in text
    assert "None of your jobs starts now: the lab's policy starts no job of yours for another" in text
    assert "gnn waits: the lab's policy starts no job of yours for another" in text


def test_of_somebody_else_and_as_json(here: Settings) -> None:
    record = json.loads(policy_view(here, "61001").to_json())
    assert record["user"] == "uid 61001" and record["not_now"] == "" and record["waiting"] == {}
    assert record["settings"]["quantum"]["value"] == 1800 and record["settings"]["quantum"]["by"] == "default"
    assert record["settings"]["devices"]["by"] == ""
    with pytest.raises(BadOption, match="knows no user"):
        policy_view(here, "nobody-of-that-name")


def test_what_is_wrong_with_the_file_comes_first(here: Settings, tmp_path: Path) -> None:
    policy_view(here)
    (tmp_path / "policy.toml").write_text("[default]\nquantum = 30")
    first, *rest = policy_view(here).to_text().splitlines()
    assert "line 2: default: quantum: '30' is not a duration" in first and "The policy of before holds" in first
    assert "  devices       1 at once; 0 held (users.root)" in rest


def _asks(name: str) -> Request:
    return Request(job_id="j", name=name, needed=GiB)
