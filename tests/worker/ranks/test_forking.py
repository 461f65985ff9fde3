"""Who forks the ranks, and what is known of those that were forked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from jupyter_gpufit.worker.ranks.forking import ForkedRank

AFTER_COMPUTING = """
import os, signal, threading
import numpy, torch
from jupyter_gpufit.system.processes import die_with_parent
from jupyter_gpufit.worker.ranks.forking import ForkedRank, ForkingThread

def computes():
    return float(torch.ones(1 << 20).mul_(2.0).sum()) == 2 << 20

def be_a_rank():
    die_with_parent()
    found = computes() and torch.get_num_threads() == 2 and not torch.is_grad_enabled()
    found &= numpy.geterr()["divide"] == "raise"
    found &= threading.current_thread() is threading.main_thread() and not threading.current_thread().daemon
    heard = []
    signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
    os.kill(os.getpid(), signal.SIGUSR1)
    os._exit(7 if found and heard else 1)

children = []
def fork():
    for _ in range(2):
        if not (pid := os.fork()):
            try:
                be_a_rank()
            finally:
                os._exit(1)
        children.append(ForkedRank.of(pid))

torch.set_num_threads(2)
computes()
torch.set_grad_enabled(False)
numpy.seterr(divide="raise")
"""
FORKS = """
ForkingThread().run(fork)
print([child.ended(20.0) for child in children])
for child in children:
    child.kill(5.0)
"""
ELSEWHERE = """
torch.set_default_device("meta")
computes = lambda: torch.ones(1).device.type == "meta"
"""


@pytest.mark.slow(10)
@pytest.mark.parametrize("before", ["", ELSEWHERE], ids=["", "default device"])
def test_a_rank_computes_with_many_threads_after_its_parent_has(before: str) -> None:
    """Fork in the thread that has computed, and it waits for ever."""
    ran = subprocess.run([sys.executable, "-c", AFTER_COMPUTING + before + FORKS], capture_output=True, text=True)
    assert ran.stdout == "[7, 7]\n", ran.stderr


def test_one_that_was_waited_for_by_somebody_else_is_not_taken_for_another() -> None:
    def fork() -> ForkedRank:
        if not (pid := os.fork()):
            os.setpgid(0, 0)
            os._exit(3)
        return ForkedRank.of(pid)

    known, taken = fork(), fork()
    assert known.ended(30.0) == 3 == known.ended(0.0)
    os.waitpid(taken.pid, 0)
    assert taken.ended(30.0) is None
    for one in (known, taken):
        one.kill(30.0)
        with pytest.raises(ChildProcessError):
            os.waitpid(one.pid, 0)
        one.kill(0.0)
        assert one.ended(0.0) is None


def test_one_that_stands_is_ended_with_its_group() -> None:
    reading, writing = os.pipe()
    if not (pid := os.fork()):
        os.setpgid(0, 0)
        os.fork()
        os.write(writing, b"x")
        while True:
            signal.pause()
    child = ForkedRank.of(pid)
    os.close(writing)
    said = b""
    while len(said) < 2:  # both of them
        said += os.read(reading, 2)
    assert child.ended(0.0) is None
    child.kill(30.0)
    assert os.read(reading, 1) == b""  # nobody has it any more
    os.close(reading)
