"""A Jupyter server and a kernel of one user, on two CPU slots, for a module's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernels import environment
from tests.server.running import Server, running_server


@pytest.fixture(scope="module")
def env(home: Path) -> dict[str, str]:
    return environment(home)


@pytest.fixture(scope="module")
def server(home: Path, env: dict[str, str]) -> Iterator[Server]:
    with running_server(env, home) as server:
        yield server
