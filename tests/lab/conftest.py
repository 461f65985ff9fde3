"""Labs to claim in: a private one for everybody, and a shared one with several users where the tests run as root."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from jupyter_gpufit.lab import Lab, open_lab
from jupyter_gpufit.lab.directory import unsound
from jupyter_gpufit.settings import Settings
from tests.lab.players import Player


@pytest.fixture(scope="session", autouse=True)
def _loaded() -> None:
    """Load what anyio loads late: a player who became another user may not be able to read it."""
    anyio.run(anyio.sleep, 0)


@pytest.fixture
def lab() -> Iterator[Lab]:
    """A lab of this user's own; on tmpfs, as a real one is."""
    path = tempfile.mkdtemp(prefix="gpufit-test-", dir="/dev/shm")
    yield open_lab(Settings(lab=f"{path}/lab"))
    shutil.rmtree(path)


@pytest.fixture
def shared_lab() -> Iterator[Lab]:
    """A lab as `gpufit lab init` makes it."""
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: what users do to each other. Run the tests as root, in a container, to test it.")
    path = Path(tempfile.mkdtemp(prefix="gpufit-test-", dir="/dev/shm"))
    make_shared(path)
    assert not unsound(path)
    yield Lab(path, shared=True)
    shutil.rmtree(path)


def make_shared(path: Path) -> None:
    path.chmod(0o1777)
    (path / "mutex").touch()
    (path / "mutex").chmod(0o666)


@pytest.fixture
def players() -> Iterator[list[Player]]:
    """Processes of this test, which end with it."""
    started: list[Player] = []
    yield started
    for player in started:
        player.kill()
