"""What a notebook gets back from a training that was left and gone on with is what it would have got otherwise."""

from __future__ import annotations

import linecache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from jupyter_gpufit.graph import Reply, Shipment, bring_into, receive, ship
from jupyter_gpufit.snapshot.arrived import arrival_again, needed_of
from jupyter_gpufit.surroundings import midway, travel
from tests.graph.crossing import defined, notebook

from .beside import meters
from .training import Trainings, digests

pytestmark = pytest.mark.slow

BEFORE = """
import torch, random, numpy as np
from torch import nn
torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.hist = nn.Linear(4, 8), nn.Linear(8, 2), []
    def forward(self, x):
        return self.b(torch.relu(self.a(x)))

model = Net()
opt = torch.optim.AdamW(model.parameters(), lr=0.1)
held, flat = model.a.weight, model.b.weight.detach().numpy()
data, big = torch.randn(12, 4), np.arange(100_000.0)
view, log = big[10:20], []
nested, gone = {"log": log, "best": None}, torch.ones(3)
text, unchanged, lonely = "x", [1, 2], [gone, 5]
counts, shared = torch.zeros(4).share_memory_(), nn.Linear(3, 1).share_memory()

def step(x):
    opt.zero_grad()
    loss = model(x).sum()
    loss.backward()
    opt.step()
    return loss.item()
"""
CELL = """
random.seed(1)
old, lonely = lonely, None
for i in range(6):
    log.append(step(data[2 * i : 2 * i + 2] + random.random()))
    model.hist.append(i)
    view += 1
    counts += 1
    shared.weight.data += 1
    if i == 1:
        old.append("changed")
        gone += 3
        del old  # what only the notebook still has
    if i == 3:
        del text
        nested["best"] = {name: value.clone() for name, value in model.state_dict().items()}
    if i == 4:
        new = model.a
"""


class Kernel:
    """A notebook whose variables have gone to a worker."""

    def __init__(self) -> None:
        self.namespace = notebook(BEFORE)
        self.own = {name: self.namespace[name] for name in defined(self.namespace)}
        self.shipment: Shipment = ship(defined(self.namespace), self.namespace)

    def seen(self) -> tuple[Any, ...]:
        """Its variables, its own objects whatever became of their names, and whether they are the same."""
        now = {name: self.namespace[name] for name in defined(self.namespace)}
        same = [name for name, value in self.own.items() if now.get(name) is value]
        own = {name: value for name, value in self.own.items() if not isinstance(value, type)}
        return _of(now), _of(own), same, now["new"] is now["model"].a, now["held"] is now["model"].a.weight


def _of(values: dict[str, Any]) -> dict[str, str]:
    return {name: one for name, one in digests(values).items() if name != "generators"}


@pytest.fixture(scope="module")
def expected(trainings: Trainings, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    kernel, saved = Kernel(), tmp_path_factory.mktemp("whole") / "reply"
    trainings.run(CELL, shipment=kernel.shipment, reply=saved)
    kernel.shipment.bring_back(Reply.open(saved), kernel.namespace)
    return kernel.seen()


@pytest.mark.parametrize("begun", [0, 2])
def test_a_generator_of_an_earlier_cell_goes_on_where_it_stood(
    begun: int, trainings: Trainings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (
        "import torch\nfrom tests.snapshot.beside.meters import cycle\n"
        "def count(first):\n    while True:\n        yield first\n        first += 1\n"
        "numbers, again, later = count(5), cycle(torch.arange(3)), count(1)\n"
        "numbered = (n for n in range(9))\n"
        f"first = [next(one) for _ in range({begun}) for one in (numbers, again, later, numbered)]\n"
    )
    monkeypatch.setitem(linecache.cache, "<notebook>", (len(before), None, before.splitlines(True), "<notebook>"))
    midway.begin_alone(lambda: kernel)
    kernel = notebook(before)
    shipment = ship(defined(kernel), kernel)
    cell = (
        "import random\nrandom.seed(1)\nseen = []\nfor i in range(6):\n"
        "    seen.append((next(numbers), next(again).item(), next(numbered)))\n"
        "    if i > 3:\n        seen.append(next(later))\ndel numbers, again, later, numbered"
    )

    whole = trainings.run(cell, shipment=shipment)
    left = trainings.run(cell, shipment=shipment, at=4, save=tmp_path / "saved")
    assert not left.error
    left = trainings.run(cell, shipment=shipment, of=tmp_path / "saved", at=2, save=tmp_path / "once more")
    assert not left.error
    assert trainings.run(cell, shipment=shipment, of=tmp_path / "once more").digests == whole.digests


def test_tensors_that_grow_before_and_after_it_was_left(trainings: Trainings, tmp_path: Path) -> None:
    def kernel() -> dict[str, Any]:
        return notebook("import torch\nearly, late, still, twin = (torch.zeros(3) for _ in range(4)); part = late[:2]")

    cell = (
        "import random\nrandom.seed(1)\nfor i in range(6):\n    still += random.random()\n    part += 1\n"
        "    if i == 1:\n        early.resize_(5).fill_(1)\n        seen = twin.numpy()\n"
        "    if i == 4:\n        late.resize_(7)[3:] = 4\n        twin += 1\n"
    )
    seen = []
    for leaves in (False, True):
        namespace, reply = kernel(), tmp_path / str(leaves)
        shipment = ship(defined(namespace), namespace)
        if leaves:
            left = trainings.run(cell, shipment=shipment, at=3, save=tmp_path / "saved")
            assert not left.error
            trainings.run(cell, shipment=shipment, of=tmp_path / "saved", reply=reply)
        else:
            trainings.run(cell, shipment=shipment, reply=reply)
        mine = {name: namespace[name] for name in ("early", "late", "still", "twin", "part")}
        shipment.bring_back(Reply.open(reply), namespace)
        assert all(namespace[name] is value for name, value in mine.items())
        namespace["twin"][0] = 9
        seen.append({name: namespace[name].tolist() for name in (*mine, "seen")})

    assert seen[0] == seen[1]
    assert seen[0]["late"] == [6, 6, 0, 4, 4, 4, 4] and seen[0]["seen"] == [9, 1, 1] and len(seen[0]["early"]) == 5


def test_a_generator_that_was_made_where_nothing_is_rewritten_goes_on_where_it_stood(
    trainings: Trainings, tmp_path: Path
) -> None:
    cell = (
        "import random\nrandom.seed(1)\nfrom tests.snapshot.beside.meters import cycle\n"
        "again, later = map(cycle, [[1, 2, 3], [4, 5]])\nseen = []\n"
        "for i in range(8):\n    seen.append(next(again))\nafter = [next(again), next(later)]\ndel again, later\n"
    )
    whole = trainings.run(cell)
    left = trainings.run(cell, at=4, save=tmp_path / "saved")
    assert not left.error
    left = trainings.run(cell, of=tmp_path / "saved", at=2, save=tmp_path / "once more")
    assert not left.error

    assert trainings.run(cell, of=tmp_path / "once more").digests == whole.digests


@pytest.mark.parametrize("memory", ["the kernel's memory", "a new memory"])
@pytest.mark.parametrize("at", [1, 3, 5])
def test_brings_back_what_an_uninterrupted_cell_would(
    at: int, memory: str, expected: tuple[Any, ...], trainings: Trainings, tmp_path: Path
) -> None:
    kernel, slot = Kernel(), at == 3
    left = trainings.run(CELL, shipment=kernel.shipment, at=at, save=tmp_path / "saved", slot=slot)
    assert not left.error
    reply, fresh = tmp_path / "reply", memory == "a new memory"
    trainings.run(CELL, shipment=kernel.shipment, of=tmp_path / "saved", reply=reply, fresh=fresh, slot=slot)

    returned = kernel.shipment.bring_back(Reply.open(reply), kernel.namespace)

    assert returned.left_behind == ()
    assert kernel.seen() == expected
    another: dict[str, Any] = {"__name__": "__main__"}
    bring_into(another, Reply.open(reply))  # as in a restarted kernel
    assert _of({name: another[name] for name in defined(another)}) == expected[0]
    assert another["held"] is another["model"].a.weight


def test_what_an_earlier_cell_put_back_into_a_module_that_the_cell_does_not_name_is_there_in_a_resume(
    trainings: Trainings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meters, "lost_since", [7], raising=False)
    namespace = {"meters": meters, "kept": import_module("tests.snapshot.beside.of_old").Kept()}
    with travel.outward(namespace, ["meters.lost_since = [7]"], (), ()) as around:
        shipment = ship(["kept", travel.NAME], namespace, around)
    cell = "for i in range(3): kept"

    trainings.run(cell, shipment=shipment, at=2, save=tmp_path)

    assert trainings.run(cell, shipment=shipment, of=tmp_path).digests["kept"] == "Kept"


def test_a_bar_that_an_earlier_cell_made_goes_on(trainings: Trainings, tmp_path: Path) -> None:
    namespace = notebook("import io, tqdm\nbar = tqdm.trange(6, file=io.StringIO(), miniters=1, mininterval=0)")
    shipment = ship(defined(namespace), namespace)
    cell = "seen = []\nfor i in bar:\n    bar.set_postfix(i=i)\n    seen.append((i, bar.n))\n"

    whole = trainings.run(cell, shipment=shipment).digests
    assert not trainings.run(cell, shipment=shipment, at=3, save=tmp_path / "saved").error
    left = trainings.run(cell, shipment=shipment, of=tmp_path / "saved", at=1, save=tmp_path / "again")
    assert not left.error

    assert trainings.run(cell, shipment=shipment, of=tmp_path / "again").digests["seen"] == whole["seen"]


def test_names_that_never_came_are_none_that_a_resumed_cell_deleted() -> None:
    """What only they are used by, in a library, could not be opened in the worker."""
    kernel = notebook("kept, helper = [1], [2]")
    shipment = ship(["kept", "helper"], kernel)
    worker: dict[str, Any] = {}
    arrival = receive(shipment.graph, shipment.memory, worker)
    arrival.opened.header["names"] = ("kept",)
    del worker["helper"]

    needed = needed_of(arrival, [], {id(worker["kept"]): None})
    again = arrival_again(needed, worker, {}, shipment.memory, arrival.whole, arrival.began)
    worker["kept"].append(3)
    shipment.bring_back(again.reply(), kernel)

    assert (kernel["kept"], kernel["helper"]) == ([1, 3], [2])
