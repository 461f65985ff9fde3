"""Recurrent layers are traced as cuDNN computes them: whole sequences, not a cell for each time step."""

from __future__ import annotations

import pytest

from jupyter_gpufit.estimate.reckoning.margins import margin_of
from jupyter_gpufit.estimate.reckoning.record import Trace
from tests.estimate.cells import IMPORTS
from tests.estimate.traced import peak_by_kind, traced

pytestmark = pytest.mark.slow

STEPS, BATCH = 1000, 25


def trained(make: str, width: int = 123, data: str = "") -> Trace:
    data = data or f'torch.randn({STEPS}, {BATCH}, {width}, device="cuda")'
    return traced(
        IMPORTS
        + f"""
model = {make}.cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    out = model({data})[0]
    optimizer.zero_grad()
    (out.data if isinstance(out, nn.utils.rnn.PackedSequence) else out).sum().backward()
    optimizer.step()
"""
    )


@pytest.mark.parametrize(("layer", "reserve"), [("LSTM", 736_000_000), ("GRU", 864_000_000)])
def test_keeps_what_cudnn_was_seen_to_keep(layer: str, reserve: int) -> None:
    trace = trained(f"nn.{layer}(123, 320, num_layers=4)")

    assert (trace.status, trace.error, trace.steps) == ("completed", "", 2)
    assert reserve in {block.size for block in trace.blocks if block.op == "_cudnn_rnn"}
    assert margin_of(trace).confidence == "low"
    assert any("recurrent" in reason and "published measurement" in reason for reason in margin_of(trace).reasons)


@pytest.mark.parametrize(
    ("make", "parameters"),
    [
        ("nn.RNN(16, 32)", 32 * (16 + 32 + 2)),
        ('nn.RNN(16, 32, nonlinearity="relu", bias=False)', 32 * (16 + 32)),
        ("nn.LSTM(16, 32, batch_first=True, bidirectional=True)", 2 * 4 * 32 * (16 + 32 + 2)),
        ("nn.LSTM(16, 32, proj_size=8)", 4 * 32 * (16 + 8 + 2) + 8 * 32),
        ("nn.GRU(16, 32, num_layers=2, dropout=0.1)", 3 * 32 * (16 + 32 + 2) + 3 * 32 * (32 + 32 + 2)),
    ],
)
def test_each_kind_has_its_parameters_and_gradients(make: str, parameters: int) -> None:
    trace = trained(make, 16)

    assert (trace.status, trace.error, trace.steps) == ("completed", "", 2)
    most = peak_by_kind(trace)
    assert most["parameter"] == most["gradient"] == 4 * parameters


def test_operations_are_those_of_the_products() -> None:
    trace = trained("nn.LSTM(16, 32, num_layers=2)", 16)

    forward = 2 * STEPS * BATCH * 4 * 32 * ((16 + 32) + (32 + 32))
    assert trace.flops_per_step == 3 * forward


def test_a_packed_sequence_and_half_precision() -> None:
    lengths = "torch.tensor([9, 5, 2])"
    data = f'nn.utils.rnn.pack_padded_sequence(torch.randn(9, 3, 16, device="cuda"), {lengths})'
    trace = trained("nn.GRU(16, 32)", data=data)
    half = traced(
        IMPORTS
        + """
model = nn.LSTM(16, 32).cuda()
with torch.autocast("cuda", dtype=torch.float16):
    out, (h, c) = model(torch.randn(10, 3, 16, device="cuda"))
assert out.dtype == h.dtype == c.dtype == torch.float16
out.sum().backward()
assert model.weight_ih_l0.grad.dtype == torch.float32
"""
    )

    assert (trace.status, trace.error, trace.steps) == ("completed", "", 2)
    assert 4 * (9 + 5 + 2) * 32 * 6 in {block.size for block in trace.blocks}  # for each step that there is
    assert (half.status, half.error) == ("completed", "")


@pytest.mark.parametrize("host", ["", ".cpu()"])
def test_of_lengths_that_nobody_knows_each_is_the_longest(host: str) -> None:
    """They come of values; where they stay on the device a slot takes them."""
    values = 'torch.randn(9, 3, 16, device="cuda")'
    lengths = f"({values}.sum(2) > 0).sum(0).sort(descending=True)[0]{host}"

    trace = trained("nn.GRU(16, 32)", data=f"nn.utils.rnn.pack_padded_sequence({values}, {lengths})")

    assert (trace.status, trace.error, trace.steps) == ("completed", "", 2)
    assert 4 * (9 + 9 + 9) * 32 * 6 in {block.size for block in trace.blocks}
    assert trace.notes["upper bound: lengths"]


def test_a_long_sequence_takes_no_longer() -> None:
    trace = trained("nn.LSTM(16, 16, num_layers=2)", data='torch.randn(20_000, 4, 16, device="cuda")')

    assert trace.status == "completed" and len(trace.changes) < 200
