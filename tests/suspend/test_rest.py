"""How long a suspended process stays."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import anyio
import pytest

from jupyter_gpufit.jobs.paths import JobPaths
from jupyter_gpufit.jobs.protocol import Waking
from jupyter_gpufit.suspend.decide import LeftAsleep
from jupyter_gpufit.testing import fake_device
from jupyter_gpufit.units import GiB
from jupyter_gpufit.worker import rest
from jupyter_gpufit.worker.lifecycle import Asked, Event, Life, after
from jupyter_gpufit.worker.rest import Rest

pytestmark = pytest.mark.anyio


@pytest.fixture
def training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(rest, "LOOK_EVERY", 0.01)
    paths = JobPaths(tmp_path)
    paths.epoch.write_text("3")
    training = SimpleNamespace(paths=paths, epoch=3, life=Life("resting"))

    def take(event: Event) -> None:
        training.life, _ = after(training.life, event)

    training.take = take
    return training


def resting() -> Rest:
    return Rest(LeftAsleep(fake_device(), GiB, GiB), collects=True)


async def test_until_it_is_woken_or_dismissed(training: Any) -> None:
    for verb in get_args(Waking):
        stay, training.life = resting(), Life("resting")
        async with anyio.create_task_group() as group:

            async def decide(stay: Rest = stay, verb: Waking = verb) -> None:
                await anyio.lowlevel.checkpoint()
                training.take(Asked(verb))
                stay.stir(training)

            group.start_soon(decide)
            with anyio.fail_after(300):
                assert await stay.until_woken(training) is (verb == "resume")


async def test_or_for_as_long_as_it_may(training: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "LONGEST", 0.0)
    with anyio.fail_after(300):
        assert not await resting().until_woken(training)
    assert training.life.phase == "released"  # whoever would wake it now is refused


@pytest.mark.parametrize("what", ["another epoch", "cleaned", "memory"])
async def test_or_until_it_is_in_the_way(what: str, training: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not rest.is_in_the_way(training)
    match what:
        case "another epoch":
            training.paths.epoch.write_text("4")
        case "cleaned":
            training.paths.epoch.unlink()
        case "memory":
            monkeypatch.setattr(rest, "free_memory", lambda: GiB // 4)
    with anyio.fail_after(300):
        assert not await resting().until_woken(training)
