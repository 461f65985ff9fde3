"""A cell that uses no GPU, on a machine that has some: it claims none of them, and lives as any other job."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command_line import gpufit, jobs, kill_workers, typing
from tests.fake_nvml import FakeNvml, Gpu, build_library
from tests.kernels import TIMEOUT, Kernel, environment, running_kernel

pytestmark = pytest.mark.slow

HELD = """%%gpufit train --name counting
import os, time
for i in range(1000):
    total += 1
    print("counted", flush=True)
    while i == 3 and not os.path.exists(go):
        time.sleep(0.05)
    if i == 9: break
"""
LATE = """%%gpufit train --name late
import os, time, torch
where = "cpu" if os.environ.get("WANDB_MODE") == "disabled" else "cu" + "da"  # as it is in a trial run
for _ in range(1000):
    torch.ones(3).to(where)
    time.sleep(0.01)
"""


@pytest.fixture(scope="module")
def env(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Of a user of a machine with two GPUs, whose workers are ended with the tests."""
    gpus = FakeNvml(tmp_path_factory.mktemp("gpus"), build_library(tmp_path_factory.mktemp("nvml")))
    gpus.show(Gpu(), Gpu())
    pretended = {name: gpus.env[name] for name in ("LD_LIBRARY_PATH", "FAKE_NVML_STATE", "FAKE_NVML_LOG")}
    given = environment(home, GPUFIT_ESTIMATE_LIMIT="300", GPUFIT_SPARE_WORKER="always", **pretended)
    yield {name: value for name, value in given.items() if name != "GPUFIT_DEVICES"}
    kill_workers(home)


@pytest.fixture(scope="module")
def kernel(home: Path, env: dict[str, str]) -> Iterator[Kernel]:
    with running_kernel(env, home) as kernel:
        yield kernel


@pytest.mark.slow(19)
def test_it_claims_none_and_is_released_and_goes_on(kernel: Kernel, env: dict[str, str], home: Path) -> None:
    go = home / "go"
    kernel.check(f"total, go = 0, {str(go)!r}")
    sent = kernel.send(HELD)

    said = kernel.until(sent, "counted\ncounted\ncounted\ncounted")

    assert "this cell uses no GPU" in said.shown
    job = jobs(env)["counting"]
    assert (job["state"], job["device"]) == ("running", "no device")
    assert "no device" in gpufit(env, "jobs").stdout
    status = json.loads(gpufit(env, "status", "--json").stdout)
    assert len(status["devices"]) == 2 and not status["claims"]

    with typing(env, "release", "counting") as released:
        assert released.stdout is not None and "saved at its next safe point" in released.stdout.readline()
        assert kernel.finish(sent).released and released.wait(TIMEOUT) == 0
    assert jobs(env)["counting"]["state"] == "released"
    go.touch()
    go_on = kernel.check("%gpufit resume counting")
    assert "no GPU" in go_on.shown
    assert kernel.check("print(total)").stdout == "10\n"


def test_one_that_uses_a_gpu_after_all_goes_on_with_one(kernel: Kernel) -> None:
    ran = kernel.run(LATE)

    assert "this cell uses no GPU" in ran.shown
    assert "late used no GPU in its trial run, and uses one now. It has no checkpoint, so it starts again" in ran.shown
    assert not ran.ok, "there is none but for show"
