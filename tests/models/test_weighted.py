"""The weights of a file on a copy of a module."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file, save_model
from torch import nn

from jupyter_gpufit.errors import BadOption, ExportFailed
from jupyter_gpufit.models.weighted import weighted


class Tied(nn.Module):
    """Two names for one weight, of which a file has one."""

    def __init__(self, side: int = 4) -> None:
        super().__init__()
        self.into = nn.Linear(side, 4, bias=False)
        self.out = nn.Linear(side, 4, bias=False)
        self.out.weight = self.into.weight


def test_a_copy_has_them_and_the_module_stays_what_it_is(tmp_path: Path) -> None:
    trained, mine = Tied(), Tied()
    before = mine.into.weight.detach().clone()
    save_model(trained, str(tmp_path / "best.safetensors"))
    found = weighted(mine, tmp_path / "best.safetensors", "mine")
    assert torch.equal(found.into.weight, trained.into.weight) and found.out.weight is found.into.weight
    assert torch.equal(mine.into.weight, before)


@pytest.mark.parametrize(
    ("write", "why"),
    [
        (lambda path: path.write_bytes(b"junk" * 100), "best.safetensors is not a .safetensors file, or damaged"),
        (lambda path: save_file({"into.weight": torch.zeros(4, 9)}, path), "are not its own: size mismatch for into"),
        (lambda path: save_file({}, path), "it has no weights for into.weight"),
        (
            lambda path: save_file({"into.weight": torch.zeros(4, 4), "head": torch.zeros(1)}, path),
            "it has no place for head. It must be made as it was",
        ),
    ],
    ids=range(4),
)
def test_what_does_not_fit_is_named(tmp_path: Path, write: Callable[[Path], object], why: str) -> None:
    path = tmp_path / "best.safetensors"
    write(path)
    with pytest.raises(ExportFailed) as found:
        weighted(Tied(), path, "net")
    assert why in found.value.why


def test_only_a_module_and_a_file_that_is_there_will_do(tmp_path: Path) -> None:
    with pytest.raises(ExportFailed, match="it is a list"):
        weighted([], tmp_path / "none", "net")
    with pytest.raises(BadOption, match="There is no file"):
        weighted(Tied(), tmp_path / "none", "net")
