"""Estimates of a cell after its setup."""

from __future__ import annotations

import linecache
import types
from collections.abc import Callable
from textwrap import dedent
from typing import Any

from jupyter_gpufit.devices.cards import Context
from jupyter_gpufit.estimate.asking.ask import Ask, TraceAnswer
from jupyter_gpufit.estimate.asking.look import look
from tests.estimate.traced import A100

MODEL = """
import numpy as np
import torch
from torch import nn
model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256))
optimizer = torch.optim.AdamW(model.parameters())
"""
TRAIN = """
model.to("cuda")
losses = []
for i in range(100):
    x = torch.from_numpy(np.random.randn(64, 256).astype(np.float32)).to("cuda")
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""


def after(setup: str) -> Callable[[], dict[str, object]]:
    """The variables that an earlier cell leaves."""
    module = types.ModuleType("__main__")
    source, name = dedent(setup), "<earlier cell>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), vars(module))
    return lambda: vars(module)


def estimated(setup: str, cell: str, **options: Any) -> TraceAnswer:
    ask = Ask(card=A100, context=Context(0, 0, "none"), limit=300.0, **options)
    return look(dedent(cell), after(setup), ask)


CPU_ONLY = """
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(10):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""
