"""Processes and threads that a cell under %%gpufit train starts: real kernel, real worker."""

from __future__ import annotations

import pytest

from tests.kernels import Kernel

pytestmark = pytest.mark.slow


def test_a_cell_may_fork_and_start_threads(kernel: Kernel) -> None:
    ran = kernel.check(
        "%%gpufit train\n"
        "import os, threading, time\n"
        "if os.fork() == 0:\n"
        "    print('child'); mine = 'of the child'\n"
        "else:\n"
        "    os.wait(); mine = 'of the parent'\n"
        "    done = []\n"
        "    go = threading.Event()\n"
        "    thread = threading.Thread(target=lambda go=go: (go.wait(), print('thread'), done.append(1)))\n"
        "    thread.start(); go.set(); del thread, go\n"
    )
    assert "child" in ran.stdout and "thread" in ran.stdout
    kernel.check("assert mine == 'of the parent' and done == [1]")


def test_what_the_cell_changes_meanwhile_its_forked_processes_do_not_see(kernel: Kernel) -> None:
    """A sampler of experience beside a running mean; and what was changed is the notebook's afterwards."""
    kernel.check("import numpy as np, torch; mean, large = np.zeros(3), torch.zeros(1 << 18)")
    kernel.check(
        "%%gpufit train\n"
        "import multiprocessing as mp\n"
        "fork = mp.get_context('fork'); go, seen = fork.Event(), fork.Queue()\n"
        "def sample():\n    go.wait(); seen.put((mean.tolist(), large.sum().item()))\n"
        "process = fork.Process(target=sample); process.start()\n"
        "mean += 1; large.add_(1); go.set()\n"
        "found = seen.get(); process.join(); del process, go, seen, fork\n"
    )
    kernel.check("assert found == ([0.0] * 3, 0.0), found\nassert mean.tolist() == [1.0] * 3 and large.mean() == 1")


def test_workers_of_a_data_loader_run(kernel: Kernel) -> None:
    kernel.check(
        "import torch\n"
        "class Squares(torch.utils.data.Dataset):\n"
        "    def __len__(self): return 8\n"
        "    def __getitem__(self, i): return torch.tensor(i * i)\n"
    )
    kernel.check(
        "%%gpufit train\nsquares = [b.tolist() for b in torch.utils.data.DataLoader(Squares(), 4, num_workers=2)]\n"
    )
    kernel.check("assert squares == [[0, 1, 4, 9], [16, 25, 36, 49]], squares")


def test_a_thread_that_nobody_will_wake_does_not_hold_the_cell(kernel: Kernel) -> None:
    ran = kernel.check(
        "%%gpufit train\n"
        "import queue, threading\n"
        "tasks = queue.Queue()\n"
        "threading.Thread(target=tasks.get, name='fetches').start()\n"
        "score = 3\n"
    )

    assert "The cell ends without its threads 'fetches'" in ran.stdout + ran.shown
    kernel.check("assert score == 3")
