"""What a cell makes on the host and leaves there is computed without its values; who asks for an array has one."""

from __future__ import annotations

import pytest

from tests.estimate.traced import traced

pytestmark = pytest.mark.slow

LARGE = """
import numpy, torch
actor, net = torch.nn.Linear(200, 400), torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    with torch.no_grad():
        scores = actor(torch.ones(2, 200)).softmax(1)
    action = ASKED
    assert action.shape == (2, 1) and action.dtype == numpy.int64
    loss = net(torch.ones(2, 4).cuda()).sum() * float(action[0, 0])
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "asked", ["scores.max(1, keepdim=True)[1].numpy()", "numpy.asarray(scores.max(1, keepdim=True)[1])"]
)
def test_a_large_model_of_the_host_acts_by_arrays(asked: str) -> None:
    trace = traced(LARGE.replace("ASKED", asked))

    assert (trace.status, trace.error, trace.steps) == ("completed", "", 2)
    assert trace.notes["values guessed for a copy to the host"] >= 2


def test_an_array_of_what_requires_a_gradient_is_refused_as_ever() -> None:
    trace = traced("import torch\ntorch.nn.Linear(200, 400)(torch.ones(2, 200)).numpy()")

    assert trace.status == "failed" and "Use tensor.detach().numpy() instead" in trace.error
