from __future__ import annotations

from collections.abc import Iterator

import pytest

from .training import Trainings


@pytest.fixture(scope="session")
def trainings() -> Iterator[Trainings]:
    process = Trainings()
    yield process
    process.close()
