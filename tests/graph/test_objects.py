"""Each object goes to a worker and comes back as itself: what the cell did to it there has happened to it here.

`objects/*.txt` is the table. Of each object it says what the notebook has, what the cell finds and does in the worker,
and what must then hold in the notebook.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from .crossing import Worker, notebook
from .names import unnamed

pytestmark = pytest.mark.slow

TORCH = "import torch\nfrom torch import nn\ntorch.manual_seed(0)\n"
MODEL = f"""{TORCH}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two, self.last = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4)
        self.last.weight = self.one.weight
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen += len(x)
        return self.last(self.two(self.one(x)))

model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)

def step():
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""
GIVEN = {"torch": TORCH, "a model": MODEL, None: ""}


class Case(NamedTuple):
    before: str
    cell: str
    after: str


def read_cases() -> Iterator[object]:
    for path in sorted(Path(__file__).with_name("objects").glob("*.txt")):
        for section in path.read_text().split("=== ")[1:]:
            title, body = section.split("\n", 1)
            name, given = re.fullmatch(r"(.*?)(?: \((torch|a model)\))?", title).groups()  # type: ignore[union-attr]
            before, cell, after = re.split(r"^--- (?:cell|after)\n", body, flags=re.MULTILINE)
            yield pytest.param(Case(GIVEN[given] + before, cell, after), id=f"{path.stem}: {name}")


@pytest.mark.parametrize("case", list(read_cases()))
def test_comes_back_as_itself(case: Case, worker: Worker) -> None:
    namespace = notebook(case.before)

    crossing = worker.cross(namespace, case.cell)

    assert crossing.returned.left_behind == ()
    assert unnamed(crossing.shipment.graph + crossing.reply.graph) == set(), "give them names in graph/wire.py"
    exec(compile(case.after, "<after>", "exec"), namespace)
