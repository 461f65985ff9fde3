"""A silent rank finds what it has written."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from jupyter_gpufit.system.contained import Contained
from jupyter_gpufit.worker.ranks import files


def test_what_is_mapped_is_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    firsts, own = tmp_path / "first", tmp_path / "own"
    own.mkdir()
    contained = Contained(own, "a rank", lambda what: None, is_trial=False)
    monkeypatch.setattr(torch.UntypedStorage, "from_file", torch.UntypedStorage.from_file)
    files._redirect_mapping(contained)
    torch.save(torch.zeros(3), firsts)
    torch.save(torch.ones(3), contained.place_of(firsts, "w"))

    assert torch.load(firsts, mmap=True).tolist() == [1.0] * 3
    mapped = torch.UntypedStorage.from_file(str(firsts), True, firsts.stat().st_size)
    assert isinstance(mapped, torch.UntypedStorage)
    mapped[0] = 0
    assert torch.load(firsts).tolist() == [0.0] * 3
