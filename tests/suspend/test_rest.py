"""How long a suspended process stays."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from jupyter_gpufit.jobs.paths import JobPaths
from jupyter_gpufit.suspend.decide import LeftAsleep
from jupyter_gpufit.testing import fake_device
from jupyter_gpufit.units import GiB
from jupyter_gpufit.worker import rest
from jupyter_gpufit.worker.rest import Rest

pytestmark = pytest.mark.anyio


@pytest.fixture
def training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(rest, "LOOK_EVERY", 0.01)
    paths = JobPaths(tmp_path)
    paths.epoch.write_text("3")
    return SimpleNamespace(paths=paths, epoch=3)


def resting() -> Rest:
    return Rest(LeftAsleep(fake_device(), GiB, GiB), collects=True)


async def test_until_it_is_woken_or_dismissed(training: Any) -> None:
    for woken in (True, False):
        stay = resting()
        async with anyio.create_task_group() as group:

            async def decide(stay: Rest = stay, woken: bool = woken) -> None:
                await anyio.lowlevel.checkpoint()
                stay.woken, stay.dismissed = woken, not woken
                stay.stir()

            group.start_soon(decide)
            with anyio.fail_after(60):
                assert await stay.until_woken(training) is woken


async def test_or_for_as_long_as_it_may(training: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "LONGEST", 0.0)
    with anyio.fail_after(60):
        assert not await resting().until_woken(training)


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
    with anyio.fail_after(60):
        assert not await resting().until_woken(training)
