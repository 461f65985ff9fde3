from __future__ import annotations

from collections.abc import Iterator

import pytest

from .crossing import Worker


@pytest.fixture(scope="session")
def worker() -> Iterator[Worker]:
    process = Worker()
    yield process
    process.close()
