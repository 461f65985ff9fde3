from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_gpufit.checkpoint import loaders

from .training import Trainings

pytestmark = pytest.mark.slow

BEFORE = """
import torch, random, numpy as np
from torch.utils.data import DataLoader, Dataset, IterableDataset
torch.manual_seed(0); random.seed(0); np.random.seed(0)
class Noisy(Dataset):
    def __init__(self):
        self.x, self.own = torch.arange(24.0), np.random.default_rng(5)
    def __len__(self):
        return len(self.x)
    def __getitem__(self, i):
        return self.x[i] + torch.rand(()) + random.random() * np.random.rand() + self.own.random()
def begin(worker):
    random.seed(worker + 100)
seen = []
def note(batch):
    seen.append(batch.sum().item() + torch.rand(()).item())
"""
TRAININGS = {
    "new workers each epoch": """
loader = DataLoader(Noisy(), batch_size=4, shuffle=True, num_workers=2, worker_init_fn=begin)
for epoch in range(2):
    for batch in loader:
        note(batch)
""",
    "workers that stay, and an epoch that is left": """
loader = DataLoader(Noisy(), batch_size=4, shuffle=True, num_workers=2, persistent_workers=True)
for epoch in range(3):
    for n, batch in enumerate(loader):
        note(batch)
        if epoch == 1 and n == 2:
            break
""",
    "an iterator in a variable": """
loader = DataLoader(Noisy(), batch_size=3, shuffle=True, num_workers=3, generator=torch.Generator().manual_seed(1))
it = iter(loader)
while len(seen) < 14:
    try:
        batch = next(it)
    except StopIteration:
        it = iter(loader)
        continue
    note(batch)
""",
}


def test_knows_the_code_of_this_torch() -> None:
    assert loaders.source_hash() in loaders.TESTED, "loaders.py rests on private names: look, test, and add the hash"


@pytest.mark.parametrize("cell", TRAININGS.values(), ids=TRAININGS)
def test_workers_go_on_with_their_numbers(cell: str, trainings: Trainings, tmp_path: Path) -> None:
    whole = trainings.run(cell, before=BEFORE)
    for at in (3, whole.points // 2 + 3):
        first, second = tmp_path / f"{at}", tmp_path / f"{at} again"
        assert not trainings.run(cell, before=BEFORE, at=at, save=first).error
        assert not trainings.run(cell, of=first, at=1, more=1, save=second).error  # before its workers have started

        ended = trainings.run(cell, of=second)

        assert ended.digests == whole.digests


@pytest.mark.parametrize(
    ("loader", "why"),
    [
        ("DataLoader(Stream(), num_workers=1)", "num_workers=0"),
        ("DataLoader(Noisy(), num_workers=2, in_order=False)", "in_order=False"),
    ],
)
def test_what_cannot_be_saved_is_said(loader: str, why: str, trainings: Trainings, tmp_path: Path) -> None:
    cell = f"class Stream(IterableDataset):\n    def __iter__(self): return iter(range(9))\nfor x in {loader}: pass\n"

    left = trainings.run(cell, before=BEFORE, at=2, save=tmp_path)

    assert left.error.startswith("CannotSave") and why in left.error and "the loop over" in left.error
