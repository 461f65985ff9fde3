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
from tests.terminal import kill_workers

# A test run in the background of a shell inherits ignored signals, and hands them on to every process it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# The package is compiled once, and not again in each of the hundreds of processes that the tests start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# How long an example takes says something about the machine only, and a run that fails must fail again when repeated.
hypothesis.settings.register_profile(
    "ours", deadline=None, derandomize=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("ours")

pytest_plugins = ["tests.fake_nvml.fixtures", "tests.side_by_side", "tests.towns"]

_PATIENCE = 20.0  # for threads that are about to end


@pytest.fixture(scope="session", autouse=True)
def _no_thread_stays() -> Iterator[None]:
    """Fail when a test has left a thread that Python would wait for: of a process of xdist, only reports are heard."""
    yield
    if left := _threads_left():
        faulthandler.dump_traceback(all_threads=True)
        pytest.fail(f"Tests left threads that would keep Python from ending: {left}", pytrace=False)


def pytest_unconfigure() -> None:
    """End, rather than wait for ever."""
    if _threads_left():
        sys.stdout.flush()
        os._exit(1)


def _threads_left() -> list[str]:
    waits_for = [t for t in threading.enumerate() if not t.daemon and t not in pools._threads_queues]
    waits_for.remove(threading.current_thread())
    for thread in waits_for:
        thread.join(_PATIENCE)
    return [thread.name for thread in waits_for if thread.is_alive()]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's home of this test module alone."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def env(home: Path) -> dict[str, str]:
    """The environment of this module's user, who waits neither for imports nor for estimates.

    A trial would run every cell twice, and wait where the cell waits; those who test estimates have another user.
    """
    return environment(home, GPUFIT_SPARE_WORKER="1", GPUFIT_ESTIMATE_LIMIT="0")


@pytest.fixture(scope="module")
def kernel(home: Path, env: dict[str, str]) -> Iterator[Kernel]:
    """One kernel for a module's tests."""
    with running_kernel(env, home) as kernel:
        yield kernel


@pytest.fixture(scope="module")
def second_kernel(home: Path, env: dict[str, str]) -> Iterator[Kernel]:
    """Another notebook of the same user."""
    with running_kernel(env, home) as kernel:
        yield kernel


@pytest.fixture
def no_worker_outlives_its_test(home: Path) -> Iterator[None]:
    """A failed test must not leave a worker that holds a slot: every test after it would wait."""
    yield
    kill_workers(home)
