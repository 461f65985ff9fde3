"""What a suspended worker answers: it goes on once, and only while the job is still its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast, get_args

import pytest

from jupyter_gpufit.jobs import record
from jupyter_gpufit.jobs.epoch import next_epoch
from jupyter_gpufit.jobs.handover import Handover, note_start, noted_start
from jupyter_gpufit.jobs.paths import JobPaths
from jupyter_gpufit.jobs.protocol import Answer, Waking
from jupyter_gpufit.jobs.record import Record, take_lock, unlock
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.suspend.decide import LeftAsleep
from jupyter_gpufit.suspend.waking import GoOn, of_a_worker
from jupyter_gpufit.testing import fake_device
from jupyter_gpufit.worker import rest
from jupyter_gpufit.worker.lifecycle import Event, Life, after
from jupyter_gpufit.worker.rest import Rest
from jupyter_gpufit.worker.training import Training

HERE = Settings(devices="cpu:2x1GiB")


class Unprepared(Rest):
    """Asks no driver."""

    def prepare(self, training: Training) -> None:
        pass


@dataclass
class Stage:
    """A worker at rest, as far as an answer needs it; both training and account."""

    paths: JobPaths
    handover: Handover
    epoch: int = 1
    rest: Rest | None = field(default_factory=lambda: Unprepared(LeftAsleep(fake_device(), 1, 1), collects=True))
    record: Record = field(default_factory=lambda: Record(state="released", since=0.0, epoch=1))
    settings: Settings = HERE
    name: str = "bert"
    life: Life = field(default_factory=lambda: Life("resting"))

    def take(self, event: Event) -> None:
        self.life, _ = after(self.life, event)

    @property
    def went_on(self) -> dict[str, Any]:
        """As what, where it did."""
        told = {name: getattr(self.handover, name) for name in ("gpu", "needed", "why", "outgrew", "resumes")}
        return {"epoch": self.epoch, **told} if self.epoch > 1 else {}

    def begin_again(self) -> None:
        self.record = replace(self.record, state="starting", epoch=next_epoch(self.paths))

    def ask(self, lock: int, verb: Waking = "resume", settings: Settings = HERE) -> Answer:
        wanted = GoOn("cpu:1", 5, "needs 5 bytes", 3, of_a_worker(settings))
        return rest.answer(cast(Any, self), self.rest, cast(Any, self), lock, verb, wanted.to_json())


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    paths = JobPaths(tmp_path)
    handover = Handover(job_root=str(tmp_path), cwd="/", path=[], env={}, cell_number=1)
    note_start(paths, handover)
    assert next_epoch(paths) == 1
    return Stage(paths, handover)


@pytest.fixture
def lock(stage: Stage) -> Iterator[int]:
    """The resting worker's: open, and not held."""
    fd = take_lock(stage.paths, "bert")
    unlock(fd)
    yield fd
    os.close(fd)


def test_it_goes_on_once_as_the_next_epoch_with_what_it_was_told(stage: Stage, lock: int) -> None:
    assert stage.ask(lock, settings=replace(HERE, widget="never")).ok  # which no worker goes by
    told = {"gpu": "cpu:1", "needed": 5, "why": "needs 5 bytes", "outgrew": 3}
    assert stage.went_on == {"epoch": 2, **told, "resumes": True}
    assert stage.life.phase == "begun"
    start = noted_start(stage.paths)
    assert (start.needed, start.outgrew, start.gpu) == (5, 3, "")  # another device is for this time
    for verb in get_args(Waking):
        again = stage.ask(lock, verb)
        assert (again.ok, again.data, again.why.split(".")[0]) == (False, {}, "it is starting")
    assert stage.life.phase == "begun"


def test_it_ends_where_somebody_else_has_the_job_or_had_it(
    stage: Stage, lock: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "GLANCES", 0.01)
    other = take_lock(stage.paths, "bert")
    answer = stage.ask(lock)
    assert (answer.ok, answer.data) == (False, {"ends": True}) and "it runs already" in answer.why
    next_epoch(stage.paths)
    os.close(other)
    stage.life = Life("resting")
    assert stage.ask(lock).why == "another worker has gone on with it since"
    assert stage.life.phase == "released" and not stage.went_on


def test_it_ends_where_other_settings_hold_and_where_it_is_asked_to(stage: Stage, lock: int) -> None:
    other = stage.ask(lock, settings=replace(HERE, lab="/elsewhere", checkpoint_every=5.0))
    assert other.why == "other settings hold here (lab, checkpoint_every)" and other.data == {"ends": True}
    stage.life = Life("resting")
    assert stage.ask(lock, "dismiss").ok
    assert stage.life.phase == "released" and not stage.went_on
    stage.life, stage.rest = Life("resting"), None
    assert not stage.ask(lock, "dismiss").ok
