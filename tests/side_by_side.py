"""How `make test` shares the tests between its processes: by files, and where it takes long to start, by folders.

Each process makes the fixtures of a whole session for itself. Kernels, ports, homes and labs are every test's own, so
that nothing else need be kept apart. What takes longest goes first: at the end nobody waits for it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xdist.scheduler import LoadFileScheduling

FOLDERS = ("tests/browser", "tests/server")  # each with one Jupyter server for most of its tests
APART = ("tests/corpus",)  # each test starts all that it uses
SLOW = 3.0  # seconds that a test marked as slow takes, unless its mark says how many
QUICK = 0.05


@pytest.hookimpl(optionalhook=True)  # `make gpu` runs where xdist is not installed
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """For `--dist loadfile`, which knows of no folders."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByUnit(LoadFileScheduling):  # type: ignore[misc]  # it has no types
        def _split_scope(self, nodeid: str) -> str:
            return unit_of(nodeid)

    config.option.loadscopereorder = False  # the files with the most tests are not those that take longest
    return ByUnit(config, log)


@pytest.hookimpl(trylast=True)  # once every mark is there
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not hasattr(config, "workerinput"):
        return
    lasts = defaultdict[str, float](float)
    for item in items:
        lasts[unit_of(item.nodeid)] += seconds_of(item)
    items.sort(key=lambda item: -lasts[unit_of(item.nodeid)])


def unit_of(nodeid: str) -> str:
    """What a test stays together with."""
    file = nodeid.partition("::")[0]
    if file.startswith(APART):
        return nodeid
    return next((folder for folder in FOLDERS if file.startswith(f"{folder}/")), file)


def seconds_of(item: pytest.Item) -> float:
    """How long a test takes, about."""
    slow = item.get_closest_marker("slow")
    return QUICK if slow is None else float(slow.args[0]) if slow.args else SLOW
