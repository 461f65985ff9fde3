"""Fixtures shared by tests with real kernels."""

from __future__ import annotations

import concurrent.futures.thread as pools
import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.kernels import Kernel, environment, running_kernel

# A test run in the background of a shell inherits ignored signals, and hands them on to every process it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# How long an example takes says something about the machine only, and a run that fails must fail again when repeated.
hypothesis.settings.register_profile(
    "ours", deadline=None, derandomize=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("ours")

pytest_plugins = ["tests.fake_nvml.fixtures", "tests.towns"]

_PATIENCE = 20.0  # for threads that are about to end


def pytest_unconfigure() -> None:
    """Fail, rather than wait for ever, when a test has left a thread that Python would wait for."""
    waits_for = [t for t in threading.enumerate() if not t.daemon and t not in pools._threads_queues]
    waits_for.remove(threading.current_thread())
    for thread in waits_for:
        thread.join(_PATIENCE)
    if left := [thread.name for thread in waits_for if thread.is_alive()]:
        sys.stderr.write(f"\nTests left threads that would keep Python from ending: {left}\n")
        faulthandler.dump_traceback(all_threads=True)
        sys.stdout.flush()
        os._exit(1)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's home of this test module alone."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def kernel(home: Path) -> Iterator[Kernel]:
    """One kernel for a module's tests, on two CPU slots, with a spare worker so that each cell starts at once."""
    with running_kernel(environment(home, GPUFIT_SPARE_WORKER="1"), home) as kernel:
        yield kernel
