"""A lab that several users share, where the tests run as root."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jupyter_gpufit.lab import Lab
from tests.lab.conftest import players, shared_lab

__all__ = ["named_lab", "players", "shared_lab"]


@pytest.fixture
def named_lab(shared_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """The same, as the settings name it."""
    monkeypatch.setenv("GPUFIT_LAB", str(shared_lab.path))
    yield shared_lab
