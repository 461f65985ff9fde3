"""Fixtures shared by tests with real kernels."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests import warm
from tests.command_line import kill_workers
from tests.kernels import Kernel, environment, running_kernel

# A test run in the background of a shell inherits ignored signals, and hands them on to every process it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# The package is compiled once, and not again in each of the hundreds of processes that the tests start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ["GPUFIT_SPARE_WORKER"] = "never"  # of kernels within this process

# Between two operations torch's threads would spin, each on a processor that another process of the tests needs: of
# small matrices that costs twenty times what the arithmetic does. The number of threads, and hence each bit, stays.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

warm.begin()

# How long an example takes says something about the machine only, and a run that fails must fail again when repeated.
hypothesis.settings.register_profile(
    "ours", deadline=None, derandomize=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("ours")

pytest_plugins = [
    "tests.fake_nvml.fixtures",
    "tests.held_training",
    "tests.left_behind",
    "tests.side_by_side",
    "tests.in_turns",
    "tests.towns",
]


gc.disable()  # until all is collected


def pytest_collection_finish() -> None:
    """All tests and what they import are here to stay: two million objects that nobody need look through again.

    Each search for garbage did, each `gc.get_objects` of ours, and, copying their pages, each child that is forked.
    """
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture
def anyio_backend() -> str:
    """The loop that we use; old versions of anyio's plugin would try trio's, too."""
    return "asyncio"


@pytest.fixture(scope="module", autouse=True)
def _frozen_again() -> None:
    """The rewriting of programs has it thawed where it asks who holds an object."""
    gc.freeze()


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
def no_worker_outlives_its_test(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A failed test must not leave a worker that holds a slot: every test after it would wait.

    A test may have had its jobs kept in a folder of its own, which is not in the home that all of them share.
    """
    yield
    kill_workers(tmp_path_factory.getbasetemp())
