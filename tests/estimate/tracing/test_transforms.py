"""Transforms of torch.func in a traced cell: what they compute is counted below them, where it takes memory."""

from __future__ import annotations

import pytest

from tests.estimate.traced import peak_by_kind, traced

pytestmark = pytest.mark.slow

CELL = """
import torch
from torch import nn
from torch.func import functional_call, grad, hessian, vmap
net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1)).cuda()
opt = torch.optim.Adam(net.parameters())
def u(p, z):
    return functional_call(net, p, (z,)).squeeze(-1)
def inner(p, z):
    g = grad(lambda q: u(q, z).square().sum())(p)
    return u({name: p[name] - 0.01 * g[name] for name in p}, z)
for _ in range(9):
    p, z = dict(net.named_parameters()), torch.rand(64, 2, device="cuda")
    curved = vmap(hessian(u, argnums=1), (None, 0))(p, z)
    loss = curved.square().mean() + vmap(inner, (None, 0))(p, z).square().mean()
    opt.zero_grad(); loss.backward(); opt.step()
"""


def test_are_counted_and_what_they_call_must_not_run_twice() -> None:
    trace = traced(CELL)

    assert (trace.status, trace.error) == ("completed", "")
    assert trace.steps == 2
    most = peak_by_kind(trace)
    really = 186_152  # bytes: the storages that lived at one time when it ran on a CPU
    assert most["all"] - most["workspace"] == pytest.approx(really, rel=0.001)
    assert {one.why_not.partition(" inside of")[0] for one in trace.modules} == {"it is called"}
