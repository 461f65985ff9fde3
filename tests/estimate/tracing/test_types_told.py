"""What a traced tensor tells of itself to whoever asks for its type or its device."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tests.estimate.cells import IMPORTS
from tests.estimate.traced import traced

from .test_trace import TRAIN, ended_well

pytestmark = pytest.mark.slow


def test_a_tensors_type_is_told_as_on_a_device() -> None:
    trace = traced(
        """
        import torch
        from torch import nn
        model = nn.Linear(8, 8).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        class Meta(type):
            pass
        class Made(metaclass=Meta):
            pass
        for _ in range(3):
            out = model(torch.ones(4, 8, device="cuda"))
            assert type(out) == torch.Tensor and type(out) is torch.Tensor and type(model.weight) is nn.Parameter
            assert type([]) is list and isinstance(int, type) and issubclass(Meta, type) and type(Made) is Meta
            assert type(int) == type and isinstance(Made, Meta) and type.mro(int) == [int, object]
            assert type("Other", (), {})().__class__.__name__ == "Other"
            loss = out.square().mean()
            optimizer.zero_grad(); loss.backward(); optimizer.step()
        """
    )
    assert trace.status == "completed", trace.error


def test_the_first_cpu_is_the_cpu() -> None:
    """d3rlpy calls it by its number. A small layer of the CPU has its values in a trial, and a large one none."""
    trace = traced(
        IMPORTS
        + "model = nn.Sequential(nn.Linear(64, 512), nn.Linear(512, 512), nn.Linear(512, 8)).to('cpu:0')\n"
        + "model(torch.ones(2, 64, device=torch.device('cpu', 0)))\nmodel.to('cuda')\n"
        + TRAIN
    )

    assert ended_well(trace)


def test_a_librarys_question_for_a_tensors_type_is_answered_as_on_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torchtuples' cat()."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "lib_on_torch.py").write_text("import torch\ndef is_tensor(x): return type(x) is torch.Tensor\n")
    monkeypatch.syspath_prepend(folder)
    lib = importlib.import_module("lib_on_torch")

    trace = traced("import torch\nassert is_tensor(torch.ones(3, device='cuda'))", lambda: {"is_tensor": lib.is_tensor})

    assert trace.status == "completed", trace.error
    assert "type" not in vars(lib)
