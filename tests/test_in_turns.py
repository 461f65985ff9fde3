"""Which of the longest tests `make test` runs at a commit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.in_turns import TURNS, of_turn

NAMES = [f"tests/test_{letter}.py::test_{number}" for letter in "abc" for number in range(5)]


def test_after_as_many_commits_as_there_are_turns_each_has_run_once() -> None:
    ran = [name for now in range(TURNS) for name in of_turn(NAMES, now)]

    assert sorted(ran) == sorted(NAMES)
    assert of_turn(NAMES[::-1], 1) == of_turn(NAMES, 1)  # in whichever order they are found


@pytest.mark.slow(3)
def test_all_run_where_pytest_is_called_by_hand(tmp_path: Path) -> None:
    tests = tmp_path / "test_long.py"
    tests.write_text(
        f"import pytest\n@pytest.mark.slow(10)\n@pytest.mark.parametrize('n', range({2 * TURNS}))\ndef test(n): ...\n"
    )
    root = Path(__file__).resolve().parents[1]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.in_turns",
        "-c",
        str(root / "pyproject.toml"),
        str(tests),
    ]

    def passed(**env: str) -> str:
        ran = subprocess.run(command, cwd=root, env={**_without_turns(), **env}, capture_output=True, text=True)
        return ran.stdout.strip().splitlines()[-1]

    assert passed().startswith(f"{2 * TURNS} passed")
    assert passed(IN_TURNS="1").startswith(f"2 passed, {2 * TURNS - 2} deselected")


def _without_turns() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "IN_TURNS"}
