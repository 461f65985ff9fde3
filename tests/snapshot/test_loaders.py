from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from jupyter_gpufit.snapshot.kinds import loader_proof, loaders
from jupyter_gpufit.snapshot.kinds.loaders import RememberingIter

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
rng = np.random.default_rng(6)
times = 0
def by_the_globals(x):
    global times
    times += 1
    return x + rng.random() + times / 8
class Wide(Noisy):
    drawn, count, made = random.Random(7), 0, None
    def __init__(self, shift):
        super().__init__()
        self.shift = shift
    def __getitem__(self, i):
        self.count += 1
        Wide.drawn_at = self.count
        if self.made is None:
            self.made = np.random.default_rng(8)
        drawn = self.shift(by_the_globals(super().__getitem__(i))) + Wide.drawn.random() + self.made.random()
        return drawn + self.count
class Collate:
    __slots__ = ("own",)
    def __init__(self):
        self.own = torch.Generator().manual_seed(9)
    def __call__(self, batch):
        return torch.stack(batch) + torch.rand((), generator=self.own)
def shifted(draw=random.Random(10).random):
    own = np.random.RandomState(11)
    return lambda x: x + own.rand() + draw()
class Caching(Noisy):
    def __init__(self):
        super().__init__()
        self.cache = {}
    def __getitem__(self, i):
        return self.cache.setdefault(i, super().__getitem__(i))
class Stream(IterableDataset):
    def __init__(self, *parts):
        self.parts, self.own = parts, np.random.default_rng(12)
    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        for i in range(self.parts[info.id]):
            yield i + torch.rand(()) + random.random() * np.random.rand() + self.own.random()
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
    "numbers that are drawn and counted outside the dataset's attributes": """
loader = DataLoader(Wide(shifted()), batch_size=4, shuffle=True, num_workers=2, collate_fn=Collate())
for epoch in range(2):
    for batch in loader:
        note(batch)
        rng.random(), Wide.drawn.random()
""",
    "streams of unlike length, in workers that are new each epoch": """
loader = DataLoader(Stream(13, 30), batch_size=4, num_workers=2, worker_init_fn=begin)
for epoch in range(2):
    for batch in loader:
        note(batch)
""",
    "a stream without batches, in three workers": """
for x in DataLoader(Stream(7, 7, 7), batch_size=None, num_workers=3, prefetch_factor=1):
    note(x)
""",
}


def test_knows_the_code_of_this_torch() -> None:
    assert loaders.source_hash() in loaders.TESTED, "loaders.py rests on private names: look, test, and add the hash"


def test_a_torch_that_is_not_known_is_tried_which_draws_no_numbers() -> None:
    before = torch.get_rng_state(), random.getstate()

    assert loader_proof.goes_on(RememberingIter, loaders._taken_up)
    assert torch.equal(torch.get_rng_state(), before[0]) and random.getstate() == before[1]


def test_one_whose_names_mean_something_else_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RememberingIter, "_next_index", lambda self: next(self._sampler_iter))

    assert not loader_proof.goes_on(RememberingIter, loaders._taken_up)


SOAKED = (
    "workers that stay, and an epoch that is left",
    "streams of unlike length, in workers that are new each epoch",
)


@pytest.mark.slow(16)
@pytest.mark.parametrize(
    "cell",
    [pytest.param(cell, marks=pytest.mark.soak if name in SOAKED else (), id=name) for name, cell in TRAININGS.items()],
)
def test_workers_go_on_with_their_numbers(cell: str, trainings: Trainings, tmp_path: Path) -> None:
    whole = trainings.run(cell, before=BEFORE)
    for at in (3, whole.points // 2 + 3):
        first, second = tmp_path / f"{at}", tmp_path / f"{at} again"
        assert not trainings.run(cell, before=BEFORE, at=at, save=first).error
        assert not trainings.run(cell, of=first, at=1, more=1, save=second).error  # before its workers have started

        ended = trainings.run(cell, of=second)

        assert ended.digests == whole.digests


def test_what_a_dataset_keeps_in_its_workers_is_told(trainings: Trainings, tmp_path: Path) -> None:
    cell = "for batch in DataLoader(Caching(), batch_size=4, num_workers=1):\n    note(batch)\n"

    [remark] = trainings.run(cell, before=BEFORE, at=3, look=True, save=tmp_path).remarks

    assert "changed `cache`" in remark and "num_workers=0" in remark


def test_a_stream_that_is_another_one_when_it_is_asked_again_is_told(trainings: Trainings, tmp_path: Path) -> None:
    before = BEFORE + "import os\nclass Elsewhere(Stream):\n    def __iter__(self): return iter([os.getppid()] * 24)\n"
    cell = (
        "import warnings\nwarnings.simplefilter('error')\nfor x in DataLoader(Elsewhere(), 4, num_workers=1): note(x)\n"
    )
    assert not trainings.run(cell, before=before, at=4, save=tmp_path).error

    with pytest.raises(AssertionError, match="did not give again"):
        trainings.run(cell, of=tmp_path)


@pytest.mark.parametrize(
    ("loader", "why"),
    [
        ("DataLoader(Stream(9), num_workers=1, persistent_workers=True)", "persistent_workers"),
        ("DataLoader(Noisy(), num_workers=2, in_order=False)", "in_order=False"),
    ],
)
def test_what_cannot_be_saved_is_said(loader: str, why: str, trainings: Trainings, tmp_path: Path) -> None:
    left = trainings.run(f"for x in {loader}: pass\n", before=BEFORE, at=2, save=tmp_path)

    assert left.error.startswith("CannotSave") and why in left.error and "the loop over" in left.error
