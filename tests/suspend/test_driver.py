"""The process that asks the driver, on a stand-in; and what it and the doctor say where there is nothing to ask."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import anyio
import pytest

from jupyter_gpufit.errors import CannotSuspend
from jupyter_gpufit.examine.user import facts, judge
from jupyter_gpufit.examine.user.facts import SuspendFound
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.suspend.driver import Driver

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

FAKE_CUDA = Path(__file__).resolve().parents[1] / "fake_cuda"
WANTED = Settings(driver_suspend=True)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    path = os.pathsep.join([str(FAKE_CUDA), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "STAND_IN_DRIVER": str(tmp_path)}


@contextmanager
def somebody() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        try:
            yield process.pid
        finally:
            process.kill()


async def test_there_and_back(env: dict[str, str], tmp_path: Path) -> None:
    with somebody() as pid, closing(Driver(env)) as driver:
        await driver.probe()
        await driver.suspend(pid)
        assert (tmp_path / f"state-{pid}").read_text() == "checkpointed"
        with pytest.raises(CannotSuspend, match="unlock: RuntimeError: CUDA_ERROR_ILLEGAL_STATE"):
            await driver.unlock(pid)
        await driver.restore(pid, {"GPU-1": "GPU-2", "GPU-2": "GPU-1"})
        await driver.unlock(pid)
    assert (tmp_path / "said").read_text().split("\n")[3:5] == ["restore 1=2 2=1", "unlock"]


async def test_what_fails_on_the_way_lets_the_process_go(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "fails").write_text("checkpoint")
    with somebody() as pid, closing(Driver(env)) as driver:
        with pytest.raises(CannotSuspend, match="CUDA_ERROR_INVALID_VALUE: it was told to fail. Its checkpoint"):
            await driver.suspend(pid)
        assert (tmp_path / f"state-{pid}").read_text() == "running"


async def test_a_driver_that_does_not_answer_is_not_waited_for(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "hangs").write_text("lock")
    with somebody() as pid, closing(Driver(env)) as driver:
        await driver.probe()
        with anyio.fail_after(300), pytest.raises(CannotSuspend, match="suspend: no answer within 1 s"):
            await driver.suspend(pid, patience=1.0)
    with closing(Driver(env)) as driver:
        driver.close()
        with anyio.fail_after(300):
            with pytest.raises(CannotSuspend, match="has ended"):
                await driver.probe()


async def test_why_nothing_can_be_suspended_is_said(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Driver({**env, "STAND_IN_VERSION": "12090"})) as driver:
        with pytest.raises(CannotSuspend, match=r"the driver is for CUDA 12.9, and 13.0 is needed \(driver 580\)"):
            await driver.probe()
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert facts.suspend(Settings(), 60) == SuspendFound(False)
    assert facts.suspend(WANTED, 60) == SuspendFound(True)
    monkeypatch.setenv("STAND_IN_VERSION", "12090")
    [finding] = judge.suspend(facts.suspend(WANTED, 60))
    assert finding.level == "note" and "driver_suspend is set and cannot be done here: the driver" in finding.what


def test_the_doctor_judges_it() -> None:
    assert list(judge.suspend(SuspendFound(False))) == []
    assert [one.level for one in judge.suspend(SuspendFound(True))] == ["ok"]
    [late] = judge.suspend(SuspendFound(True, answered=False))
    assert late.level == "note" and "--wait" in late.mend
