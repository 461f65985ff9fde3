"""Of the tests that take longest, `make test` runs a part at each commit, so that all have had their turn after a few.

At one commit it is always the same part. `make soak` runs all of them, and so does pytest where it is called by hand.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.side_by_side import seconds_of

DEAR = 6.0  # seconds
TURNS = 6
ROOT = Path(__file__).resolve().parents[1]


@pytest.hookimpl(tryfirst=True)  # before those are left out that `-m` does not name
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    dear = [item for item in items if seconds_of(item) >= DEAR and item.get_closest_marker("soak") is None]
    for item in dear:
        item.add_marker("dear")
    if not os.environ.get("IN_TURNS"):
        return
    chosen = of_turn([item.nodeid for item in dear], turn())
    others = {item for item in dear if item.nodeid not in chosen}
    config.hook.pytest_deselected(items=[*others])
    items[:] = [item for item in items if item not in others]


def of_turn(names: Sequence[str], now: int) -> set[str]:
    """The names of those that run now."""
    return {name for number, name in enumerate(sorted(names)) if number % TURNS == now}


def turn() -> int:
    """Whose it is: by the number of commits, or the first one's where this is no repository."""
    counted = subprocess.run(["git", "-C", ROOT, "rev-list", "--count", "HEAD"], capture_output=True, text=True)
    return int(counted.stdout) % TURNS if counted.returncode == 0 else 0


def pytest_report_header() -> str | None:
    if os.environ.get("IN_TURNS"):
        return f"IN TURNS: of the tests that take over {DEAR:.0f} s each {TURNS}th runs at this commit; all: make soak"
    return None
