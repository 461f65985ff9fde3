"""A worker that waits beside a kernel: when there is one, and when it goes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from jupyter_gpufit.engine import forks
from jupyter_gpufit.engine import spare as spare_module
from jupyter_gpufit.engine.forks import Forked, ForkingProcess
from jupyter_gpufit.engine.local import WaitingWorker
from jupyter_gpufit.engine.spare import Spare
from jupyter_gpufit.system import processes
from jupyter_gpufit.units import GiB
from tests import warm
from tests.kernels import TIMEOUT, environment, running_kernel

pytestmark = pytest.mark.slow  # most start a process

MUCH = 1 << 50
KERNEL = """
import os, sys, time
from jupyter_gpufit.engine.spare import Spare
spare = Spare("always")
spare.offer()
print(spare._process.process.pid, flush=True)
time.sleep(600)
"""


def forking(spare: Spare) -> ForkingProcess | None:
    return spare._process


def code(worker: WaitingWorker) -> int | None:
    """How it ended, as far as is known now."""
    assert isinstance(worker.started.process, Forked)
    return worker.started.process.code


def score(pid: int) -> int:
    """How soon the system ends it where memory runs out."""
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


@pytest.fixture(autouse=True)
def they_begin_cold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "start", warm.cold_start)


@pytest.fixture(autouse=True)
def torch_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", sys)


def test_there_is_one_where_the_notebook_uses_torch_and_memory_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    for when, free in (("never", MUCH), ("auto", 3 * GiB)):
        spare = Spare(when, free=lambda free=free: free)  # type: ignore[misc]
        spare.offer()
        assert forking(spare) is None
    monkeypatch.delitem(sys.modules, "torch")
    spare = Spare("auto", free=lambda: MUCH)
    spare.offer()
    assert forking(spare) is None


@pytest.mark.slow(13)
def test_it_forks_workers_and_tells_how_each_ended() -> None:
    spare = Spare("auto", free=lambda: MUCH)
    spare.offer()
    process = forking(spare)
    assert process is not None and score(process.process.pid) == 1000

    first, second, third = (spare.take(os.environ) for _ in range(3))
    first.channel.close()  # no job comes
    first.started.reap()
    with process._changed:
        process._changed.wait_for(lambda: second.started.process.pid > 0, TIMEOUT)
    pid = second.started.process.pid
    assert psutil.Process(pid).parent() == psutil.Process(process.process.pid)
    assert score(pid) == score(os.getpid()), "it is no spare"
    assert os.getsid(pid) == pid, "no signal to the kernel's group reaches it"
    os.kill(pid, signal.SIGKILL)
    second.channel.close()
    second.started.reap()
    third.dismiss()

    assert (first.started.exit_code(), second.started.exit_code()) == (0, -signal.SIGKILL)
    fourth = spare.take(os.environ)
    assert code(fourth) is None, "and there are more"
    spare.dismiss()
    fourth.dismiss()
    assert process.process.wait(TIMEOUT) == 0


def test_given_up_it_tells_how_its_workers_end() -> None:
    spare = Spare("always")
    worker = spare.take(os.environ)
    spare.dismiss()
    assert code(worker) is None
    worker.channel.close()
    worker.started.reap()
    assert worker.started.exit_code() == 0


def test_a_worker_whose_spare_is_killed_before_it_began_has_ended() -> None:
    spare = Spare("always")
    worker = spare.take(os.environ)
    process = forking(spare)
    assert process is not None
    process.process.kill()
    worker.channel.close()
    worker.started.reap()
    assert worker.started.exit_code() == -signal.SIGKILL
    other = spare.take(os.environ)
    assert code(other) is None and forking(spare) is not process
    other.dismiss()
    spare.dismiss()


@pytest.mark.parametrize("why", ["memory is short", "nobody runs a cell"])
def test_it_is_given_up(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    free = [MUCH]
    monkeypatch.setattr(spare_module, "LOOK", 0.01)
    spare = Spare("auto", free=lambda: free[0])
    spare.offer()
    offered = forking(spare)
    assert offered is not None
    if why == "memory is short":
        free[0] = GiB
    else:
        monkeypatch.setattr(spare_module, "IDLE", 0.0)

    assert offered.process.wait(TIMEOUT) == -signal.SIGTERM


@pytest.mark.parametrize("what", ["environment", "packages"])
def test_it_is_replaced_once_it_would_import_something_else(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """OMP_NUM_THREADS and its like are read at import; a package that was installed since may be a newer one."""
    spare = Spare("auto", free=lambda: MUCH)
    spare.offer()
    before = forking(spare)
    spare.offer()
    assert forking(spare) is before is not None

    if what == "environment":
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
    else:
        monkeypatch.setattr(forks, "stamp", lambda: [("site-packages", 1)])
    spare.offer()

    assert before.process.wait(TIMEOUT) == -signal.SIGTERM and forking(spare) is not before
    spare.dismiss()


def test_it_ends_with_its_kernel() -> None:
    with subprocess.Popen([sys.executable, "-c", KERNEL], stdout=subprocess.PIPE, text=True) as kernel:
        assert kernel.stdout is not None
        worker = psutil.Process(int(kernel.stdout.readline()))
        kernel.kill()
    psutil.wait_procs([worker], timeout=TIMEOUT)
    assert not worker.is_running()


def test_a_notebook_has_one_once_it_has_imported_torch(tmp_path: Path) -> None:
    with running_kernel(environment(tmp_path, GPUFIT_SPARE_WORKER="auto"), tmp_path, cold=True) as kernel:
        pid = int(kernel.check("import os; print(os.getpid())").stdout)
        assert not psutil.Process(pid).children()
        kernel.check("import torch")
        kernel.check("pass")  # it was offered before the first cell was over
        [spare] = psutil.Process(pid).children()
        for _ in range(2):
            ran = kernel.check("%%gpufit train\nimport os; print(os.getppid())")
            assert int(ran.stdout) == spare.pid
