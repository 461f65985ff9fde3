"""What modules have taken of torch.cuda by name, before it was known what `cuda` means."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from jupyter_gpufit.cuda.slot import as_slot
from jupyter_gpufit.cuda.surface import ahead
from jupyter_gpufit.units import GiB

TEXT = """
from torch import Generator, compile, is_autocast_enabled
from torch.cuda import Event, FloatTensor, device_count, get_device_name, is_available, memory_allocated
there = is_available()
"""


@pytest.fixture
def early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "early.py").write_text(TEXT)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(ahead, "_imported", [])
    with ahead.asked_ahead() as unanswered:
        import early  # type: ignore[import-not-found]
    assert not unanswered
    yield early
    del sys.modules["early"]


def test_on_a_slot_it_has_the_slots(early: ModuleType) -> None:
    before = dict(vars(early))
    assert early.there

    with as_slot("cpu:7", GiB):
        assert early.get_device_name() == "CPU slot cpu:7" and early.device_count() == 1
        assert early.Generator("cuda").device.type == "cuda"
        assert early.FloatTensor([1.0]).is_cuda
        early.Event().record()
        with torch.autocast("cuda"):
            assert early.is_autocast_enabled()

    assert vars(early) == before


def test_elsewhere_it_asks_torch(early: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert early.is_available() is torch.cuda.is_available()
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 17)
    assert early.memory_allocated() == 17


def test_what_only_a_device_can_tell_is_no_answer() -> None:
    with ahead.asked_ahead() as unanswered, pytest.raises(ahead.TooEarly):
        torch.cuda.get_device_properties(0)
    assert unanswered == ["get_device_properties"]
