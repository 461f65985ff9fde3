"""A loop whose end hangs on what nobody knows comes to its end in a trial run, too; one that trains goes on."""

from __future__ import annotations

import pytest

from tests.estimate.traced import traced

pytestmark = pytest.mark.slow

TRAINING = """
import torch
from torch import nn
net = nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
def trained(x):
    loss = net(x).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    return loss
def tour():
    while True:
        at = net(torch.randn(4, 8, device="cuda")).softmax(1).multinomial(1)
        taken = net.weight.softmax(1)[0, at[:, 0]]
        if (taken != 0).all():
            break
    return taken
def settled(x):
    while (x.abs() > 1e-3).any():
        x = x / 2
    return x
def all_good(x):
    good = torch.zeros(4, dtype=torch.bool, device="cuda")
    while not good.all():
        good = good | (torch.rand(4, device="cuda") > 0.5)
    return x[good]
def sinkhorn(x):
    error = 1.0
    while error > 1e-3:
        x = x / x.sum(1, keepdim=True); x = x / x.sum(0, keepdim=True)
        error = (x.sum(1) - 1).abs().max().item()
    return x
def returns(x):
    while True:
        x = x / 2
        if torch.allclose(x, x / 2):
            return x
def unfinished(finished, elsewhere=False):
    if elsewhere:
        return True
    elif finished:
        return False
    return True
def generated(x):
    left = torch.ones(4, dtype=torch.bool, device="cuda"); over = False
    while unfinished(over):
        x = x / 2
        left = left & (x[:, 0] > 1e-3)
        over = left.max() == 0
    return x
def is_good(x):
    if not (x > 0).all():
        return False
    return True
def drawn(x):
    while not is_good(x):
        x = torch.randn_like(x)
    return x
"""


@pytest.mark.parametrize(
    "made",
    [
        "generated(x)",
        "drawn(x)",
        "tour()[:, None].expand(4, 8)",
        "settled(x)",
        "all_good(x)",
        "sinkhorn(x.exp())",
        "returns(x)",
        "torch.distributions.VonMises(x, x.exp()).sample()",
    ],
)
def test_what_is_tried_until_it_is_well(made: str) -> None:
    trace = traced(TRAINING + f"for i in range(4):\n    x = torch.randn(4, 8, device='cuda')\n    trained({made})\n")

    assert (trace.status, trace.error) == ("completed", "") and trace.steps >= 2


@pytest.mark.parametrize(
    "ends",
    ["if loss < 1e-4:\n        break", "if loss.item() < 1e-4: break", "if (net.weight == 0).all(): break"],
)
def test_a_training_that_goes_on_until_it_is_good_is_seen_to_train(ends: str) -> None:
    trace = traced(TRAINING + f"while True:\n    loss = trained(torch.randn(4, 8, device='cuda'))\n    {ends}\n")

    assert trace.steps >= 2 and trace.status in ("stopped", "completed"), trace


def test_nor_is_one_whose_end_stands_in_its_first_line_left_out() -> None:
    begin = "loss = torch.ones(1, device='cuda')\nwhile (loss > 1e-4).all():\n"

    trace = traced(TRAINING + begin + "    loss = trained(torch.randn(4, 8, device='cuda'))\n")

    assert trace.steps >= 2


@pytest.mark.parametrize("bounds", ["", ", a=0.01, b=0.03"])  # those that torch rejects by, and those of few numbers
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_torch_initialiser_that_draws_again_what_is_out_of_bounds(device: str, bounds: str) -> None:
    made = f"drawn = nn.Linear(8, 8, device='{device}')\nnn.init.trunc_normal_(drawn.weight, std=0.02{bounds})\n"

    trace = traced(TRAINING + made + "drawn.cuda()\nfor i in range(3):\n    trained(drawn(torch.randn(4, 8).cuda()))\n")

    assert trace.steps >= 2 and not trace.notes
