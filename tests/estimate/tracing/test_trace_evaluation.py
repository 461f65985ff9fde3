"""Tracing a cell that evaluates, too."""

from __future__ import annotations

import pytest

from jupyter_gpufit.estimate.reckoning.record import Trace
from tests.estimate.cells import CNN, IMPORTS, LOADER
from tests.estimate.traced import traced

pytestmark = pytest.mark.slow


def ended_well(trace: Trace) -> bool:
    return (trace.status, trace.error, trace.steps) == ("completed", "", 2)


def test_reaches_the_evaluation_behind_the_training_loop() -> None:
    trace = traced(
        IMPORTS
        + CNN
        + LOADER
        + """
model = Net().cuda()
optimizer = torch.optim.Adam(model.parameters())
seen = [0, 0]
for epoch in range(100):
    for x, y in DataLoader(data, batch_size=8):
        seen[0] += 1
        loss = F.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad(); loss.backward(); optimizer.step()
    model.eval()
    for x, y in DataLoader(data, batch_size=8):
        seen[1] += 1
        with torch.no_grad():
            model(x.cuda())
assert seen == [2, 2], seen
"""
    )

    assert ended_well(trace)


def test_evaluates_in_inference_mode_before_it_trains() -> None:
    trace = traced(
        IMPORTS
        + """
model = nn.Linear(4, 4).cuda()
x = torch.randn(8, 4)

@torch.inference_mode()
def score(x):
    found = model(x.to("cuda")).relu_()
    assert not found.requires_grad
    return found.mean().item()

score(x)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(100):
    optimizer.zero_grad(); model(x.cuda()).mean().backward(); optimizer.step()
with torch.inference_mode():
    score(x)
"""
    )
    assert ended_well(trace)
