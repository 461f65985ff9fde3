"""Modules become ONNX models that take any batch and compute the same; those that cannot are told where and why."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
import torch
from torch import nn

from jupyter_gpufit.errors import ExportFailed
from jupyter_gpufit.models.export import export

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # of torch's own


class Recurrent(nn.Module):
    """Inputs by name, one of them with one dimension; two answers."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 16, batch_first=True)
        self.dropout = nn.Dropout(0.5)

    def forward(self, ids: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
        y, (h, _) = self.lstm(ids)
        return {"y": self.dropout(y) * scale[:, None, None], "h": h}


class Branching(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x
        return -x


class Spectrum(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvals(x)  # type: ignore[no-any-return]


@pytest.mark.slow(12)
def test_a_module_in_training_is_exported_as_it_is_used_and_left_as_it_was(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, path = Recurrent().train(), tmp_path / "net.onnx"
    found = export(module, {"ids": torch.randn(1, 5, 8), "scale": torch.ones(1)}, path, "module")
    assert module.training and module.dropout.training
    assert found.any_batch and found.difference < 1e-5 and "batches of any size" in found.words
    given = {"ids": torch.randn(6, 5, 8), "scale": torch.rand(6)}
    y, h = ort.InferenceSession(str(path)).run(None, {name: one.numpy() for name, one in given.items()})
    with torch.no_grad():
        wanted = module.eval()(**given)
    np.testing.assert_allclose(y, wanted["y"].numpy(), atol=1e-5)
    np.testing.assert_allclose(h, wanted["h"].numpy(), atol=1e-5)


@pytest.mark.parametrize(
    ("module", "example", "why"),
    [
        (
            Branching(),
            torch.ones(2, 3),
            r"depends on a tensor's value \(line \d+ of test_export.py, in forward\(\): `if",
        ),
        (
            Spectrum(),
            torch.ones(2, 4, 4),
            r"no ONNX operator for aten.linalg_eig \(line \d+ of test_export.py, in forward\(\): `return torch.linalg",
        ),
    ],
)
def test_what_cannot_be_exported_is_named_with_its_line(
    tmp_path: Path, module: nn.Module, example: torch.Tensor, why: str
) -> None:
    with pytest.raises(ExportFailed, match=why):
        export(module, example, tmp_path / "net.onnx", "module")


def test_what_is_no_module_or_no_example_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportFailed, match="it is a int, not a torch.nn.Module"):
        export(3, torch.ones(1), tmp_path / "net.onnx", "three")
    with pytest.raises(ExportFailed, match="its example is a object; give a tensor"):
        export(nn.ReLU(), object(), tmp_path / "net.onnx", "module")
