from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpufit.snapshot import own_files

from .training import Trainings


@pytest.fixture(scope="session")
def trainings() -> Iterator[Trainings]:
    process = Trainings()
    yield process
    process.close()


@pytest.fixture(autouse=True)
def _tests_are_nobodys_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot that is opened in this process would put copies into the modules of tests that come later."""
    monkeypatch.setattr(own_files, "_OURS", str(Path(__file__).parents[2]) + os.sep)
