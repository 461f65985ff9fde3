from __future__ import annotations

from collections.abc import Iterator

import pytest

from jupyter_gpufit.cuda.slot import Budget, as_slot
from jupyter_gpufit.units import GiB


@pytest.fixture
def slot() -> Iterator[Budget]:
    """The test runs on a slot, as a cell would."""
    with as_slot("cpu:0", 8 * GiB) as budget:
        yield budget
