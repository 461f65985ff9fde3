"""What a cell, or an earlier one, has saved can be loaded in a trial run, and is where it was."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from jupyter_gpufit.cuda.slot import as_slot
from jupyter_gpufit.units import GiB
from tests.estimate.traced import traced

pytestmark = pytest.mark.slow


def test_what_the_cell_saved_it_can_load_again() -> None:
    trace = traced(
        """
        import io, torch
        host, moved = torch.nn.Linear(2, 2), torch.nn.Linear(1024, 1024, device="cuda")
        torch.save({"host": host.state_dict(), "moved": moved.state_dict(), "epoch": 3}, "never/best.pt")
        import os
        assert os.path.exists("never/best.pt")
        was = host.weight.detach().clone(); host.weight.data.zero_()
        found = torch.load("never/best.pt", weights_only=True)
        host.load_state_dict(found["host"]); moved.load_state_dict(found["moved"])
        assert torch.equal(host.weight, was) and found["epoch"] == 3 and found["moved"]["weight"].is_cuda
        assert not torch.load("never/best.pt", map_location="cpu")["moved"]["weight"].is_cuda
        torch.save(found["host"], buffer := io.BytesIO()); buffer.seek(0)
        assert torch.equal(torch.load(buffer)["weight"], was)
        import shutil, pathlib
        pathlib.Path("as lightning.ckpt").write_bytes(buffer.getvalue())
        shutil.copy("as lightning.ckpt", "best.ckpt")
        with open("best.ckpt", "rb") as file:
            assert torch.equal(torch.load(file)["weight"], was)
        """
    )

    assert (trace.status, trace.error) == ("completed", "")


@pytest.mark.parametrize("saved", ["on a slot", "on a GPU"])
def test_what_earlier_cells_saved_comes_back_to_its_side(
    saved: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, here = nn.Sequential(nn.Linear(3, 1024), nn.Linear(1024, 1)), torch.ones(2)
    with as_slot("cpu:0", GiB) if saved == "on a slot" else monkeypatch.context() as there:
        if isinstance(there, pytest.MonkeyPatch):
            size = here.untyped_storage().nbytes()
            there.setattr("torch.serialization.location_tag", lambda one: "cpu" if one.nbytes() == size else "cuda:0")
        torch.save(model.to("cuda" if saved == "on a slot" else "cpu"), tmp_path / "model.pt")
        torch.save({"there": model.state_dict(), "here": here}, tmp_path / "state.pt")
    trace = traced(
        f"""
        import torch
        model = torch.load({str(tmp_path / "model.pt")!r}, weights_only=False)
        found = torch.load({str(tmp_path / "state.pt")!r})
        assert all(one.is_cuda for one in [*model.parameters(), *found["there"].values()])
        assert not found["here"].is_cuda and found["here"].tolist() == [1, 1]
        opt = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(5):
            loss = model(torch.rand(4, 3, device="cuda")).mean()
            opt.zero_grad(); loss.backward(); opt.step()
        """
    )

    assert (trace.status, trace.error, trace.trained) == ("completed", "", True)
