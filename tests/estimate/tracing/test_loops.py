"""A cut loop goes over whatever the plain one does."""

from __future__ import annotations

import pytest

from tests.estimate.traced import traced

pytestmark = pytest.mark.slow

SETUP = """
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset
from tqdm import tqdm
class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.randn(80, 64))
model = nn.Linear(64, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
def step(x):
    loss = model(x.cuda()).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""


@pytest.mark.parametrize(
    "loop",
    [
        "for x in DataLoader(Stream(), batch_size=8): step(x)",
        "for number, x in tqdm(enumerate(DataLoader(Stream(), batch_size=8))): step(x)",
    ],
)
def test_what_has_a_length_by_its_class_and_none_of_its_own(loop: str) -> None:
    trace = traced(SETUP + loop)

    assert (trace.status, trace.error) == ("completed", "") and trace.steps
