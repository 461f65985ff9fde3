"""A training that is left and gone on with in other processes ends as one that was not, bit by bit.

`cells.txt` has the trainings. Each is left twice: by SIGKILL, some iterations after the snapshot was taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.graph.names import unnamed
from tests.libraries import need

from .training import Trainings

pytestmark = pytest.mark.slow

GIVEN = "import random, numpy as np\nrandom.seed(0)\nnp.random.seed(0)\n"
TORCH = "import torch\nfrom torch import nn\ntorch.manual_seed(0)\n"
WHERE = {None: [], "torch": ["plain"], "torch, slot": ["plain", "slot"], "torch, on the slot only": ["slot"]}


def read_cells() -> Iterator[object]:
    for section in Path(__file__).with_name("cells.txt").read_text().split("=== ")[1:]:
        title, body = section.split("\n", 1)
        name, where = re.fullmatch(r"(.*?)(?: \((torch.*)\))?", title).groups()  # type: ignore[union-attr]
        for one in WHERE[where] or ["plain"]:
            yield pytest.param(GIVEN + (TORCH if where else "") + body, one == "slot", id=f"{name}: {one}")


AT_NEXT = "It is tried again at the next iteration."


@pytest.mark.slow(7)
@pytest.mark.parametrize(("cell", "slot"), list(read_cells()))
def test_ends_as_one_that_was_not_left(cell: str, slot: bool, trainings: Trainings, tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    whole = trainings.run(cell, directory=tmp_path / "whole", slot=slot)
    first, second = tmp_path / "first", tmp_path / "second"
    at = 1 + whole.points // 3
    for later in range(min(9, whole.points - at)):
        directory = tmp_path / f"left-{later}"
        directory.mkdir()
        left = trainings.run(cell, directory=directory, slot=slot, at=at + later, save=first)
        if AT_NEXT not in left.error:  # on a busy machine a child may be late to answer; a worker asks again, too
            break
    assert not left.error
    assert unnamed((first / "graph").read_bytes()) == set(), "give them names in graph/wire.py"
    for later in range(9):
        left = trainings.run(cell, of=first, slot=slot, at=at + later, save=second)
        if AT_NEXT not in left.error:
            break
    assert not left.error

    ended = trainings.run(cell, of=second, slot=slot)

    assert ended.output == whole.output
    assert ended.digests == whole.digests


def test_weights_can_be_read_by_their_names(trainings: Trainings, tmp_path: Path) -> None:
    cell = (
        "import torch\nfrom torch import nn\n"
        "class Trainer: pass\n"
        "t = Trainer(); t.net = nn.Linear(3, 2, dtype=torch.bfloat16)\n"
        "model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))\n"
        "both = torch.zeros(8); model[0].bias = nn.Parameter(both[:3])\n"
        "def train(net):\n    for _ in range(2): pass\n"
        "train(nn.Linear(2, 5))\n"
    )
    left = trainings.run(cell, at=1, look=True, save=tmp_path / "saved")
    assert not left.error

    names = left.names

    assert names["model.0.weight"] == ["F32", [3, 4]]
    assert names["model.1.num_batches_tracked"] == ["I64", []]
    assert names["t.net.weight"] == ["BF16", [2, 3]]
    assert names["net of train().weight"] == ["F32", [5, 2]]
    assert "model.0.bias" not in names  # which is a part of something else


@pytest.mark.parametrize("library", ["torch.utils.tensorboard", "tensorboardX", "tests.snapshot.beside.events"])
def test_tensorboard_sees_each_step_once(library: str, trainings: Trainings, tmp_path: Path) -> None:
    need("tensorboard")
    need(library)
    cell = (
        f"from {library} import SummaryWriter\n"
        "writer = SummaryWriter('runs')\n"
        "for i in range(8): writer.add_scalar('loss', 1.0, i)\n"
        "writer.close()\n"
    )
    look = (
        "import glob\nfrom tensorboard.backend.event_processing.event_file_loader import EventFileLoader\n"
        "files = [EventFileLoader(file) for file in sorted(glob.glob('runs/*'))]\n"
        "steps = [e.step for file in files for e in file.Load() for v in e.summary.value]\nfiles = None\n"
    )
    assert not trainings.run(cell, at=4, more=3, save=tmp_path / "saved", directory=tmp_path).error
    trainings.run(cell, of=tmp_path / "saved")

    seen = trainings.run(look, directory=tmp_path).digests["steps"]

    assert seen == str([str(step) for step in range(8)])


SCALED = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
scaler = torch.amp.GradScaler("cpu")
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
"""
ACCUMULATING = """
for i in range(4):
    for micro in range(2):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = model(torch.randn(4, 8)).square().mean() / 2
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
"""


def test_a_scaler_of_an_earlier_cell_is_saved_after_its_first_step(trainings: Trainings, tmp_path: Path) -> None:
    """What it knew by the id() of its optimizer came along, and has been replaced since: the notebook may hold it."""
    from jupyter_gpufit.graph import ship
    from tests.graph.crossing import notebook

    cells = notebook(SCALED)
    names = ["torch", "model", "scaler", "optimizer"]
    whole = trainings.run(ACCUMULATING, shipment=ship(names, cells))
    left = trainings.run(ACCUMULATING, shipment=ship(names, cells), at=8, save=tmp_path / "saved")
    assert not left.error

    ended = trainings.run(ACCUMULATING, of=tmp_path / "saved")

    for name in ("model", "scaler", "optimizer", "norm"):
        assert ended.digests[name] == whole.digests[name]
