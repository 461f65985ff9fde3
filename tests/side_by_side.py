"""How `make test` shares the tests between two processes: by files, and where it takes long to start, by folders.

Each process makes the fixtures of a whole session for itself. Kernels, ports, homes and labs are every test's own, so
that nothing else need be kept apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xdist.scheduler import LoadFileScheduling

FOLDERS = ("tests/browser", "tests/server")  # each with one Jupyter server for most of its tests


@pytest.hookimpl(optionalhook=True)  # `make gpu` runs where xdist is not installed
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """For `--dist loadfile`, which knows of no folders."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByFolder(LoadFileScheduling):  # type: ignore[misc]  # it has no types
        def _split_scope(self, nodeid: str) -> str:
            return unit_of(nodeid)

    return ByFolder(config, log)


def unit_of(nodeid: str) -> str:
    """What a test stays together with."""
    file = nodeid.partition("::")[0]
    return next((folder for folder in FOLDERS if file.startswith(f"{folder}/")), file)
