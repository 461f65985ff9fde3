"""Processes of ours, and who outlives whom."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from jupyter_gpufit.system.processes import deleted_afterwards, start

WAITS = "import signal; print(os.getpid(), flush=True); signal.pause()"
CHILD = f"import os; from jupyter_gpufit.system.processes import die_with_parent; die_with_parent(); {WAITS}"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}])"


def test_one_that_is_to_die_with_its_parent_does_when_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        try:
            parent.kill()

            ended, _, _ = select.select([child], [], [], 60)
            assert ended
        finally:
            if not select.select([child], [], [], 0)[0]:
                signal.pidfd_send_signal(child, signal.SIGKILL)
            os.close(child)


FORKS = """
import multiprocessing, os, threading, time
from jupyter_gpufit.system.processes import forked_die_with_us
forked_die_with_us()
def starts(pids):
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
    child.start()
    pids.append(child.pid)
pids = []
starts(pids)
beside = threading.Thread(target=starts, args=(pids,))
beside.start(); beside.join()
print(*pids, flush=True)
time.sleep(600)
"""


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_what_its_main_thread_forked_dies_with_one_that_is_killed_and_none_with_a_thread_that_ends() -> None:
    with subprocess.Popen([sys.executable, "-c", FORKS], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        ours, of_a_thread = (os.pidfd_open(int(pid)) for pid in parent.stdout.readline().split())
        try:
            assert not select.select([ours, of_a_thread], [], [], 0)[0]
            parent.kill()

            assert select.select([ours], [], [], 10)[0]
        finally:
            for child in (ours, of_a_thread):
                if not select.select([child], [], [], 0)[0]:
                    signal.pidfd_send_signal(child, signal.SIGKILL)
                os.close(child)


def test_a_folder_is_deleted_by_no_child_once_nobody_needs_it(tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    (folder / "within").mkdir(parents=True)
    before = psutil.Process().children(recursive=True)
    needed = deleted_afterwards(folder)

    assert psutil.Process().children(recursive=True) == before
    assert folder.exists()
    needed.close()

    until = time.monotonic() + 60
    while folder.exists():
        assert time.monotonic() < until
        time.sleep(0.005)


def test_what_the_main_thread_forks_does_not_hold_up_a_start_in_another() -> None:
    started: list[subprocess.Popen[bytes]] = []
    until_closed, closed_at_last = os.pipe()

    def start_many() -> None:
        started.extend(start("units") for _ in range(30))

    starting = threading.Thread(target=start_many, daemon=True)
    starting.start()
    forked: list[int] = []
    try:
        while starting.is_alive() and len(forked) < 400:
            pid = os.fork()
            if pid == 0:
                os.close(closed_at_last)
                os.read(until_closed, 1)  # as long as a worker of a DataLoader lives
                os._exit(0)
            forked.append(pid)
            starting.join(0.002)
        starting.join(10)
        held_up = starting.is_alive()
    finally:
        os.close(closed_at_last)
        os.close(until_closed)
        for pid in forked:
            os.waitpid(pid, 0)
    starting.join()
    assert [process.wait() for process in started] == [0] * 30
    assert forked and not held_up
