"""What a trial run sees of modules that must not run twice."""

from __future__ import annotations

import pytest

from jupyter_gpufit.estimate.reckoning.parts import facts_of
from jupyter_gpufit.fit.rungs import micro_batches
from jupyter_gpufit.fit.rungs.blocks import blocks_of
from tests.estimate.traced import traced

CELL = """
import random
from collections import Counter, deque
import numpy as np
import torch
from torch import nn
count, log, told, rng = 0, [], 0, np.random.default_rng(1)
def tell():
    global told
    told += 1
class Meter:
    def __init__(self):
        self.counts = Counts()
class Counts:
    sum = 10 ** 6
class Plain(nn.Module):
    def forward(self, x):
        return x.tanh()
{modules}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(4, 4)
        self.one = Odd()
        self.norm = nn.BatchNorm1d(4)
        self.plain = Plain()
    def forward(self, x):
        return self.plain(self.norm(self.one(self.mix(x))))
model = Net().cuda()
opt = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    loss = model(torch.randn(8, 4, device="cuda")).sum()
    opt.zero_grad(); loss.backward(); opt.step()
"""
ODD = {
    "its forward changes an object that cannot be put back": "self.tally[1] += 1\n        return x * 1",
    "its forward changes buffer seen": "self.seen += 1\n        return x * 1",
    "its forward changes in place what it has or is given": "return x.mul_(2)",
    "its forward sets count": "global count\n        count += 1\n        return x * 1",
    "its forward prints": "print('here')\n        return x * 1",
    "it has hooks": "return x * 1",
    "it is compiled by torch.compile": "return x * 1",
    "its forward changes log": "log.append(1)\n        return x * 1",
    "its forward changes told": "tell()\n        return x * 1",
    "its forward changes rng": "return x * rng.random()",
    "it has or is given too many objects to look at": "self.many = [[] for _ in range(3000)]\n        return x * 1",
}
ALSO = {  # for a reason that another has, too
    "self.held.add_(1)": "its forward changes in place what it has or is given",
    "self.numbers += 1": "its forward changes an object that cannot be put back",
}
HARMLESS = (  # a second run finds it as the first one did
    "self.filled = 1",
    "self.last = x.detach()",
    "self.all.append(1)",
    "self.queue.append(1)",
    "self.meter.counts.sum += 1",
    "x = x * random.random()",
    "x = x * np.random.rand()",
    "x = x * self.rng.random()",
)


@pytest.mark.slow(1)
def test_each_is_refused_for_what_it_does_and_the_others_are_not() -> None:
    bodies = [*ODD.values(), *(f"{one}\n        return x * 1" for one in (*ALSO, *HARMLESS))]
    odd = "\n".join(
        f"class Odd{number}(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.all = []\n"
        "        self.meter, self.queue, self.tally = Meter(), deque(), Counter()\n"
        "        self.rng, self.numbers, self.held = np.random.default_rng(1), np.ones(2), torch.zeros(3)\n"
        f"        self.register_buffer('seen', torch.zeros(1))\n    def forward(self, x):\n        {body}"
        for number, body in enumerate(bodies)
    )
    hooked, compiled = list(ODD).index("it has hooks"), list(ODD).index("it is compiled by torch.compile")
    of_all = ", ".join(f"Odd{number}()" for number in range(len(bodies)))
    modules = (
        f"{odd}\nclass Odd(nn.Sequential):\n    def __init__(self):\n        super().__init__({of_all})\n"
        f"        self[{hooked}].register_forward_hook(lambda *_: None)\n"
        f"        self[{compiled}].compile(backend='eager')\n"
    )

    trace = traced(CELL.format(modules=modules))

    assert trace.status == "completed", trace.error
    why = {one.name: one.why_not for one in trace.modules}
    assert [why[f"model.one.{number}"] for number in range(len(bodies))] == [
        *ODD,
        *ALSO.values(),
        *("" for _ in HARMLESS),
    ]
    assert why["model.plain"] == why["model.norm"] == why["model.mix"] == ""


CACHE = """
import torch
from torch import nn
class Cache:
    def __init__(self):
        self.layers = []
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(4, 4)
    def forward(self, x, past=None):
        past.layers.append(self.mix(x))
        return x + past.layers[-1]
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(2))
    def forward(self, x):
        past = Cache()
        for layer in self.layers:
            x = layer(x, past=past)
        return x
model = Net().cuda()
opt = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    loss = model(torch.randn(8, 4, device="cuda")).sum()
    opt.zero_grad(); loss.backward(); opt.step()
"""


def test_a_cache_that_is_given_by_keyword_and_filled_bars_nothing() -> None:
    trace = traced(CACHE)

    assert {one.why_not for one in trace.modules} == {""}


def test_a_cache_that_is_filled_in_place_bars_the_layer_and_not_the_model() -> None:
    filled = CACHE.replace("self.layers = []", "self.layers = [torch.zeros(8, 4, device='cuda')]")
    trace = traced(filled.replace("past.layers.append(self.mix(x))", "past.layers[-1].add_(self.mix(x).detach())"))

    why = {one.name: one.why_not for one in trace.modules}
    assert why["model.layers.0"] == why["model.layers.1"] == "its forward changes in place what it has or is given"
    assert why["model"] == why["model.layers.0.mix"] == ""


IN_PLACE = """
import torch
from torch import nn
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix, self.act = nn.Linear(64, 64), nn.ReLU(inplace=True)
    def forward(self, x):
        return {forward}
model = nn.Sequential(nn.Linear(64, 64), *(Block() for _ in range(3))).cuda()
opt = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    loss = model(torch.randn(512, 64, device="cuda")).square().mean()
    opt.zero_grad(); loss.backward(); opt.step()
"""


@pytest.mark.parametrize(
    ("forward", "again"),
    [
        ("self.act(self.mix(x)).tanh()", ["1", "2", "3"]),  # as in most networks for pictures
        ("self.mix(self.act(x)).tanh()", []),  # what the block itself is given is changed
        ("self.mix(self.act(x.view(512, 8, 8)).view(512, 64)).tanh()", []),  # and so it is by another view of it
    ],
)
def test_what_is_changed_in_place_bars_the_module_that_is_given_it_and_not_those_in_which_it_is_made(
    forward: str, again: list[str]
) -> None:
    facts = facts_of(traced(IN_PLACE.format(forward=forward)))

    assert [part.path for part in facts.parts if part.why_not and part.path.endswith("act")] == [
        "1.act",
        "2.act",
        "3.act",
    ]
    assert [block.path for block in blocks_of(facts.parts) if "." not in block.path] == again
    assert [notch.part["parts"] for notch in micro_batches.notches(facts)] == [2, 4, 8, 16]


def test_the_batch_of_a_model_that_is_given_it_by_keyword() -> None:
    called = IN_PLACE.format(forward="self.act(self.mix(x))").replace("model(torch", "model(input=torch")

    facts = facts_of(traced(called))

    assert next(part.batch for part in facts.parts if not part.path) == 512
    assert micro_batches.notches(facts)
