"""What need be said once on a machine."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from jupyter_gpufit.settings import Settings
from jupyter_gpufit.system import once
from jupyter_gpufit.system.once import is_news


def test_once_on_each_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(data=str(tmp_path / "data"))
    assert [is_news(settings, text) for text in ("a\nb", "a\nb", "c", "a\nb")] == [True, False, True, False]
    monkeypatch.setattr(socket, "gethostname", lambda: "another")  # with the same home
    assert is_news(settings, "c") and not is_news(settings, "c")


def test_where_nothing_can_be_noted_it_is_said_again(tmp_path: Path) -> None:
    (tmp_path / "told.jsonl").mkdir()
    settings = Settings(data=str(tmp_path))
    assert is_news(settings, "a") and is_news(settings, "a")


def test_of_very_much_the_latest_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(once, "MOST", 1000)
    settings = Settings(data=str(tmp_path))
    for text in [*map(str, range(99)), "x" * 5000]:
        assert is_news(settings, text)
    assert not is_news(settings, "98") and is_news(settings, "0")
    assert (tmp_path / "told.jsonl").stat().st_size <= 1000
    (tmp_path / "told.jsonl").write_bytes(b"\xff" * 5000)  # a disk that failed, or somebody's editor
    assert is_news(settings, "98") and not is_news(settings, "98")
