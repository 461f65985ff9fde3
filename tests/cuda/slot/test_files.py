"""What is saved on a slot comes back to it, and can be loaded where there is none."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from jupyter_gpufit.cuda.slot.budget import Budget
from jupyter_gpufit.errors import NotOnASlot

CUDA = torch.device("cuda", 0)


def types_of(found: Any) -> dict[str, str]:
    return {name: tensor.device.type for name, tensor in found.items()}


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("mmap", [True, False])
def test_each_tensor_comes_back_to_its_side(slot: Budget, tmp_path: Path, weights_only: bool, mmap: bool) -> None:
    there, here = torch.ones(2, device="cuda"), torch.ones(3)
    sides = {
        "none": torch.ones(0, device="cuda"),
        "here": here,
        "there": there,
        "view": there[:1],
        "here too": here[1:],
    }
    torch.save(sides, tmp_path / "x.pt")
    found = torch.load(tmp_path / "x.pt", weights_only=weights_only, mmap=mmap)

    assert types_of(found) == {"none": "cpu", "here": "cpu", "there": "cuda", "view": "cuda", "here too": "cpu"}


def test_where_it_is_wanted(slot: Budget, tmp_path: Path) -> None:
    torch.save({"x": torch.ones(2, device="cuda")}, tmp_path / "x.pt")

    wheres: list[Any] = [
        "cuda",
        "cuda:0",
        torch.device("cuda"),
        {"cpu": "cuda:0"},
        lambda storage, location: None,
        None,
    ]
    for where in wheres:
        assert torch.load(tmp_path / "x.pt", map_location=where)["x"].device == CUDA
    on_host: list[Any] = ["cpu", torch.device("cpu"), {"cuda:0": "cpu"}, lambda storage, location: storage]
    for where in on_host:
        assert torch.load(tmp_path / "x.pt", map_location=where)["x"].device.type == "cpu"
    with pytest.raises(NotOnASlot, match="cuda:1"):
        torch.load(tmp_path / "x.pt", map_location="cuda:1")


def test_a_whole_model_trains_on_where_it_was(slot: Budget) -> None:
    file = io.BytesIO()
    torch.save(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).cuda(), file)
    file.seek(0)
    model = torch.load(file, weights_only=False)

    assert {tensor.device for tensor in model.state_dict().values()} == {CUDA}


def test_what_was_saved_on_a_gpu_loads(slot: Budget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.serialization, "location_tag", lambda storage: "cuda:0")
    torch.save(torch.ones(2), tmp_path / "x.pt")

    assert torch.load(tmp_path / "x.pt").device == CUDA
    assert torch.load(tmp_path / "x.pt", map_location="cpu").device.type == "cpu"


@pytest.mark.slow(10)
def test_any_torch_without_a_gpu_loads_it(slot: Budget, tmp_path: Path) -> None:
    torch.save({"x": torch.ones(2, device="cuda")}, tmp_path / "x.pt")
    asks = f"import torch; x = torch.load({str(tmp_path / 'x.pt')!r})['x']; print(x.device, x.tolist())"
    told = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True, check=True).stdout

    assert told.split(maxsplit=1) == ["cpu", "[1.0, 1.0]\n"]
