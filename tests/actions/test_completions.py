"""What a shell and a notebook offer while a command is typed."""

from __future__ import annotations

import pytest

from jupyter_gpufit.actions.completions import completions


@pytest.mark.parametrize(
    ("words", "fragment", "cell", "expected"),
    [
        ([], "tr", True, ["train"]),
        ([], "tr", False, []),
        ([], "st", False, ["status", "stop"]),
        (["train"], "--d", True, ["--detach", "--dry-run"]),
        (["train", "--detach"], "--d", True, ["--dry-run"]),
        (["train", "--gpu"], "", True, ["0", "1"]),
        (["attach"], "b", False, ["bert"]),
        (["checkpoint"], "s", False, ["show"]),
        (["resume"], "b", False, ["bert"]),
        (["move", "bert", "--to"], "", False, ["0", "1"]),
        (["nonsense"], "", False, []),
        (["history", "--by"], "", False, ["user", "device", "day"]),
        (["history", "--days"], "", False, []),
        (["completion"], "z", False, ["zsh"]),
        (["lab"], "u", False, ["uninstall", "upgrade"]),
        (["lab", "init"], "--", False, ["--help", "--dry-run", "--hub"]),
        (["resume", "bert"], "b", False, []),
    ],
)
def test_completes_what_may_stand_there(words: list[str], fragment: str, cell: bool, expected: list[str]) -> None:
    assert (
        completions(words, fragment, place="cell" if cell else "line", devices=["0", "1"], jobs=["bert", "k3f9a2"])
        == expected
    )
