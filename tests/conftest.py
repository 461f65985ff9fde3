"""Fixtures shared by tests with real kernels."""

from __future__ import annotations

import signal
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


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's home of this test module alone."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def kernel(home: Path) -> Iterator[Kernel]:
    """One kernel for a module's tests, on two CPU slots, with a spare worker so that each cell starts at once."""
    with running_kernel(environment(home, GPUFIT_SPARE_WORKER="1"), home) as kernel:
        yield kernel
