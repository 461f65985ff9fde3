"""A worker that waits beside a kernel: when there is one, and when it goes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from jupyter_gpufit.engine import spare as spare_module
from jupyter_gpufit.engine.local import WaitingWorker
from jupyter_gpufit.engine.spare import Spare
from jupyter_gpufit.units import GiB
from tests.kernels import TIMEOUT, environment, running_kernel

pytestmark = pytest.mark.slow  # most start a process

MUCH = 1 << 50
KERNEL = """
import os, sys, time
from jupyter_gpufit.engine.spare import Spare
spare = Spare("always")
spare.offer()
print(spare._waiting.started.process.pid, flush=True)
time.sleep(600)
"""


def waiting(spare: Spare) -> WaitingWorker | None:
    return spare._waiting


def score(worker: WaitingWorker) -> int:
    """How soon the system ends it where memory runs out."""
    return int(Path(f"/proc/{worker.started.process.pid}/oom_score_adj").read_text())


@pytest.fixture(autouse=True)
def torch_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", sys)


def test_there_is_one_where_the_notebook_uses_torch_and_memory_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    for when, free in (("never", MUCH), ("auto", 3 * GiB)):
        spare = Spare(when, free=lambda free=free: free)  # type: ignore[misc]
        spare.offer()
        assert waiting(spare) is None
    monkeypatch.delitem(sys.modules, "torch")
    spare = Spare("auto", free=lambda: MUCH)
    spare.offer()
    assert waiting(spare) is None


def test_it_is_the_first_to_go_where_memory_runs_out_until_it_has_a_job() -> None:
    spare = Spare("auto", free=lambda: MUCH)
    spare.offer()
    offered = waiting(spare)
    assert offered is not None and score(offered) == 1000

    taken = spare.take(os.environ)

    assert taken is offered and score(taken) == int(Path("/proc/self/oom_score_adj").read_text())
    taken.dismiss()


@pytest.mark.parametrize("why", ["memory is short", "nobody runs a cell"])
def test_it_is_given_up(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    free = [MUCH]
    monkeypatch.setattr(spare_module, "LOOK", 0.01)
    spare = Spare("auto", free=lambda: free[0])
    spare.offer()
    offered = waiting(spare)
    assert offered is not None
    if why == "memory is short":
        free[0] = GiB
    else:
        monkeypatch.setattr(spare_module, "IDLE", 0.0)

    assert offered.started.process.wait(TIMEOUT) == -signal.SIGTERM


def test_another_environment_has_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """OMP_NUM_THREADS and its like are read at import."""
    spare = Spare("auto", free=lambda: MUCH)
    spare.offer()
    before = waiting(spare)
    spare.offer()
    assert waiting(spare) is before is not None

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    spare.offer()

    assert before.started.exit_code() is not None and waiting(spare) is not before
    spare.dismiss()


def test_it_ends_with_its_kernel() -> None:
    with subprocess.Popen([sys.executable, "-c", KERNEL], stdout=subprocess.PIPE, text=True) as kernel:
        assert kernel.stdout is not None
        worker = psutil.Process(int(kernel.stdout.readline()))
        kernel.kill()
    psutil.wait_procs([worker], timeout=TIMEOUT)
    assert not worker.is_running()


def test_a_notebook_has_one_once_it_has_imported_torch(tmp_path: Path) -> None:
    with running_kernel(environment(tmp_path, GPUFIT_SPARE_WORKER="auto"), tmp_path) as kernel:
        pid = int(kernel.check("import os; print(os.getpid())").stdout)
        assert not psutil.Process(pid).children()
        kernel.check("import torch")
        kernel.check("pass")  # it was offered before the first cell was over
        [spare] = psutil.Process(pid).children()
        ran = kernel.check("%%gpufit train\nimport os; print(os.getpid())")
        assert int(ran.stdout) == spare.pid
