"""Fixtures: a lab of one's own, and one that several users share."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.people import Town, make_shared, need_root, preload


@pytest.fixture
def folder() -> Iterator[Path]:
    """On tmpfs, as a real lab is."""
    path = Path(tempfile.mkdtemp(prefix="gpufit-test-", dir="/dev/shm"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def town(folder: Path) -> Iterator[Town]:
    """One user, with a private lab."""
    yield from _living(Town(folder / "lab", folder))


@pytest.fixture
def shared_town(folder: Path) -> Iterator[Town]:
    """Several users, with the lab that an administrator made; only for root."""
    need_root()
    make_shared(folder / "lab")
    preload()
    yield from _living(Town(folder / "lab", folder))


def _living(town: Town) -> Iterator[Town]:
    yield town
    for typed in town.typed:
        typed.clear_up()
