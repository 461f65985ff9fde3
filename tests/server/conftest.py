"""A Jupyter server and a kernel of one user, on two CPU slots, for all tests of this folder: they are slow to start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernels import Kernel, environment, running_kernel
from tests.server.running import Server, running_server


@pytest.fixture(scope="package")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The user's home."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="package")
def server(home: Path) -> Iterator[Server]:
    looks_often = "from jupyter_gpufit.server import activity\nactivity.EVERY = 0.5"
    with running_server(environment(home), home, changes=looks_often) as server:
        yield server


@pytest.fixture(scope="package")
def kernel(home: Path) -> Iterator[Kernel]:
    with running_kernel(environment(home, GPUFIT_SPARE_WORKER="1"), home) as kernel:
        yield kernel
