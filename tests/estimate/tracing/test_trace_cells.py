"""Unmodified training cells, traced: each runs, and its parts have the sizes that its shapes say."""

from __future__ import annotations

import pytest

from tests.estimate.cells import CELLS, OPTIMIZERS, with_optimizer
from tests.estimate.traced import peak_by_kind, traced

pytestmark = pytest.mark.slow

# parameters, optimizer state in multiples of it
SIZES = {
    "transformer with a target mask": (4 * 167_680, 2),
    "mixed precision": (4 * (448 + 4640 + 32 + 5130), 2),
    "mixed precision, two loader workers": (4 * (448 + 4640 + 32 + 5130), 2),
    "LSTM": (4 * (4 * 64 * (32 + 64 + 2) + 4 * 64 * (64 + 64 + 2)), 1),
    "frozen parts": (4 * (64 * 64 + 64 + 64 * 4 + 4), 0),
    "GAN": (4 * (16 * 64 + 64 + 64 * 32 + 32 + 32 * 64 + 64 + 64 + 1), 2),
    "default device": (4 * (16 * 16 + 16), 2),
    "gradient accumulation": (4 * (448 + 4640 + 32 + 5130), 2),
}


@pytest.mark.parametrize("name", CELLS)
def test_cell_runs_two_steps(name: str) -> None:
    trace = traced(CELLS[name])

    assert (trace.status, trace.error) == ("completed", "")
    assert trace.steps == 2
    most = peak_by_kind(trace)
    assert most["parameter"] > 0 and most["gradient"] > 0 and most["activation"] > 0
    if name in SIZES:
        parameters, states = SIZES[name]
        assert most["parameter"] == parameters
        assert most["optimizer state"] // parameters == states  # and a step count
    assert trace.flops_per_step


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_state_of_each_optimizer(optimizer: str) -> None:
    trace = traced(with_optimizer(optimizer))

    assert (trace.status, trace.error) == ("completed", "")
    most = peak_by_kind(trace)
    parameters = 4 * (256 * 128 + 128 + 128 + 1)
    assert most["parameter"] == parameters
    assert parameters * OPTIMIZERS[optimizer] <= most["optimizer state"] <= parameters * OPTIMIZERS[optimizer] + 200


def test_state_of_adafactor_is_rows_and_columns() -> None:
    trace = traced(with_optimizer("torch.optim.Adafactor(model.parameters())"))

    assert (trace.status, trace.error) == ("completed", "")
    assert 0 < peak_by_kind(trace)["optimizer state"] < 4096


def test_state_of_muon_is_one_momentum() -> None:
    trace = traced(with_optimizer("torch.optim.Muon([p for p in model.parameters() if p.dim() == 2])"))

    assert (trace.status, trace.error) == ("completed", "")
    assert peak_by_kind(trace)["optimizer state"] == 4 * (256 * 128 + 128)
