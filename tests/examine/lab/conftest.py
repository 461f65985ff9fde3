"""A machine's root directory elsewhere, in which root makes a lab."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpufit.examine.lab.init import Site, init

LAB = Path("/run/gpufit")


@pytest.fixture
def machine() -> Iterator[Site]:
    """A machine at another place than /, whose /run is on tmpfs."""
    root = Path(tempfile.mkdtemp(prefix="gpufit-test-", dir="/dev/shm"))
    root.chmod(0o755)
    yield Site(LAB, root)
    shutil.rmtree(root)


@pytest.fixture
def as_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: making a lab. Run the tests as root, in a container, to test it.")


@pytest.fixture
def made(machine: Site, as_root: None) -> Site:
    for _ in init(machine):
        pass
    return machine
