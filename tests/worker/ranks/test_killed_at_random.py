"""Ranks that are killed at random times: the job ends with the right result or a clear error, and nothing stays."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from jupyter_gpufit.jobs.record import read_record
from jupyter_gpufit.jobs.store import all_jobs
from jupyter_gpufit.settings import Settings
from tests.command_line import gpufit
from tests.kernels import Kernel, environment, running_kernel
from tests.worker.ranks.test_ranks import SET_UP as LIVELY
from tests.worker.ranks.test_ranks import scratch, until

pytestmark = [pytest.mark.soak, pytest.mark.usefixtures("no_worker_outlives_its_test")]
ROUNDS = int(os.environ.get("SOAK_ROUNDS", "36"))
BOUND = 240.0  # seconds in which each job must have ended, one that begins again included
SET_UP = LIVELY.replace("lr=0.01", "lr=0.001")  # so that roundings stay small over so many steps
CELL = """
for epoch in range(10):
    for at in range(0, 64, 10):
        loss = (net(x[at:at + 10]) - y[at:at + 10]).pow(2).mean()
        opt.zero_grad(); loss.backward(); opt.step(); losses.append(loss.item())
    time.sleep(0.1)
"""


@pytest.fixture(scope="module")
def env(home: Path) -> dict[str, str]:
    more = {
        "GPUFIT_DEVICES": "cpu:4x2GiB",
        "GPUFIT_CHECKPOINT_EVERY": "0.7",
        "GPUFIT_RANK_PATIENCE": "20",
        "TMPDIR": str(home),
    }
    return environment(home, GPUFIT_SPARE_WORKER="1", GPUFIT_ESTIMATE_LIMIT="0", **more)


@pytest.fixture(scope="module")
def kernel(home: Path, env: dict[str, str]) -> Iterator[Kernel]:
    with running_kernel(env, home) as kernel:
        yield kernel


def test_whoever_is_killed_whenever(kernel: Kernel, home: Path, env: dict[str, str]) -> None:
    kernel.check(SET_UP + CELL)
    plain = json.loads(kernel.check("print(losses)").stdout)
    drawn = random.Random(13)
    ended = [_round(kernel, home, env, f"soaked-{number}", drawn, plain) for number in range(ROUNDS)]
    assert {"ok"} <= set(ended) and len(set(ended)) > 1


def _round(kernel: Kernel, home: Path, env: dict[str, str], name: str, drawn: random.Random, plain: list[float]) -> str:
    kernel.check(SET_UP)
    sent = kernel.send(f"%%gpufit train --gpus {drawn.randint(2, 4)} --name {name}\n{CELL}")
    kernel.until(sent, "starting on")
    worker = _worker(home, name)
    time.sleep(drawn.uniform(0.0, 6.0))
    family = [worker, *_ranks(worker)]
    victim = drawn.choice(family[1:] * 2 or family) if drawn.random() < 0.8 else worker
    with suppress(psutil.Error):
        victim.send_signal(drawn.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGSEGV)))
    began = time.monotonic()
    ran = kernel.finish(sent, BOUND)
    print(name, len(family), victim.pid == worker.pid, ran.ename or "ok", round(time.monotonic() - began, 1))  # noqa: T201
    until(lambda: not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in family[1:]), 10.0)
    until(lambda: not scratch(home), 10.0)
    assert json.loads(gpufit(env, "status", "--json").stdout)["claims"] == []
    if ran.ok:
        found = json.loads(kernel.check("print(losses)").stdout)
        assert len(found) == len(plain)
        assert max(abs(one / other - 1) for one, other in zip(found, plain, strict=True)) < 1e-5
        return "ok"
    assert ran.ename in ("RankLost", "WorkerDied"), ran
    return ran.ename


def _worker(home: Path, name: str) -> psutil.Process:
    settings = Settings(data=str(home / ".local/share/gpufit"))
    [record] = [read_record(paths) for job, paths in all_jobs(settings) if job.name == name]
    assert record.worker is not None
    return psutil.Process(record.worker.pid)


def _ranks(worker: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.Error):
        return [one for one in worker.children() if one.name() != "sh" and os.getpgid(one.pid) == one.pid]
    return []
