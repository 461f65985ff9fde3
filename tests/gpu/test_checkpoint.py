"""A training on a GPU, left at a safe point and gone on with in another process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.checkpoint.training import Trainings

pytestmark = pytest.mark.gpu

CELL = """
import torch
from torch import nn
torch.manual_seed(0)
torch.backends.cudnn.deterministic = True
model = nn.Sequential(nn.Linear(8, 64), nn.Dropout(0.1), nn.ReLU(), nn.Linear(64, 2)).to("cuda")
lstm = nn.LSTM(8, 8).cuda()
opt = torch.optim.AdamW([*model.parameters(), *lstm.parameters()], lr=0.01)
scaler, own = torch.amp.GradScaler(), torch.Generator("cuda").manual_seed(3)
stream, event = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True)
first, empty = model[0].weight[:3].detach(), torch.empty(0, device="cuda")
losses, devices = [], []
for i in range(8):
    x = torch.randn(4, 8, device="cuda", generator=own)
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(x).float().pow(2).mean() + lstm(x)[0].float().mean()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    opt.zero_grad()
    event.record()
    losses.append(loss.item())
    devices.append(str(opt.state[model[0].weight]["exp_avg"].device))
same = bool((first == model[0].weight[:3]).all())
noise = torch.rand(3, device="cuda").cpu()
own, first = own.get_state(), first.cpu()
model, lstm, opt, x = model.cpu(), lstm.cpu(), None, x.cpu()
loss = stream = event = None
"""


@pytest.fixture(scope="module")
def trainings() -> Iterator[Trainings]:
    process = Trainings()
    yield process
    process.close()


def test_ends_as_one_that_was_not_left(trainings: Trainings, tmp_path: Path) -> None:
    whole = trainings.run(CELL)
    left = trainings.run(CELL, at=4, save=tmp_path / "saved")
    assert not left.error

    ended = trainings.run(CELL, of=tmp_path / "saved")

    assert ended.digests == whole.digests
    assert ended.digests["same"] == "True" and "cuda:0" in ended.digests["devices"]
