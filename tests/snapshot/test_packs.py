"""Small runs of bytes that follow each other are one blob: thousands of small arrays are saved as a few."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jupyter_gpufit.graph import Reply, ship
from jupyter_gpufit.graph.spans import Foreign
from jupyter_gpufit.snapshot.packs import PACK, SMALL, extent, packs
from tests.graph.crossing import defined, notebook

from .training import Trainings


def run(offset: int, nbytes: int) -> Foreign:
    return Foreign(nbytes, offset, lambda buffer: None)


def test_small_ones_go_together_as_far_as_a_large_one_one_with_a_name_or_the_length_of_a_pack() -> None:
    runs = [run(0, 8), run(64, 70), run(192, SMALL), run(192 + SMALL, 8), run(8192, 8), run(8256, 8)]
    runs += [run(16384 + 4032 * n, 4000) for n in range(400)]

    found = packs(runs, lambda one: one.offset == 8192)

    assert [one for pack in found for one in pack] == runs
    assert [extent(pack) for pack in found[:4]] == [(0, 134), (192, SMALL), (192 + SMALL, 8), (8192, 8)]
    assert all(extent(pack)[1] <= PACK for pack in found) and len(found) == 6


CELL = """
import random
random.seed(1)
made, torn = [*map(np.copy, np.ones((2000, 3)))], [*map(torch.clone, torch.ones(2000, 2))]
tail = made[5][1:]
for i in range(6):
    k = random.randrange(2000)
    came[k] += i; tensors[k] -= i; made[k] *= 2; torn[k] += 1; tail += 1
    net.weight.data += 1
    if i == 4:
        tensors[7].resize_(5).fill_(3)
        torn[9].resize_(6).fill_(4)
"""


@pytest.mark.slow
def test_what_goes_together_is_what_it_was_and_may_still_grow(trainings: Trainings, tmp_path: Path) -> None:
    def kernel() -> dict[str, Any]:
        return notebook(
            "import numpy as np, torch\ntorch.manual_seed(0)\nnet = torch.nn.Linear(2, 2)\n"
            "came = [np.full(4, i) for i in range(2000)]\nview = came[3][2:]\n"
            "tensors = [torch.full((2,), float(i)) for i in range(2000)]"
        )

    seen = []
    for leaves in (False, True):
        namespace, reply = kernel(), tmp_path / str(leaves)
        shipment = ship(defined(namespace), namespace)
        if leaves:
            another = kernel()  # what it trains is in the memory that was shipped
            looked = ship(defined(another), another)
            names = trainings.run(CELL, shipment=looked, at=3, look=True, save=tmp_path / "looked").names
            assert {"net.weight", "net.bias"} < {*names} and len(names) < 30
            left = trainings.run(CELL, shipment=shipment, at=3, save=tmp_path / "first")
            assert not left.error
            left = trainings.run(CELL, shipment=shipment, of=tmp_path / "first", at=1, save=tmp_path / "second")
            assert not left.error
            trainings.run(CELL, shipment=shipment, of=tmp_path / "second", reply=reply)
        else:
            trainings.run(CELL, shipment=shipment, reply=reply)
        shipment.bring_back(Reply.open(reply), namespace)
        namespace["view"] += 1
        lists = {name: [one.tolist() for one in namespace[name]] for name in ("came", "tensors", "made", "torn")}
        seen.append((lists, namespace["tail"].tolist(), namespace["net"].weight.tolist()))

    assert seen[0] == seen[1]
    assert seen[0][0]["tensors"][7] == [3] * 5 and seen[0][0]["torn"][9] == [4] * 6
