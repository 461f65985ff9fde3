"""Batches that a generator gives: one before the training, some in it, one after, and so again."""

from __future__ import annotations

import pytest

from tests.kernels import Kernel

SETUP = """
import torch
from torch.utils.data import DataLoader, TensorDataset
def cycle(loader):
    while True:
        for batch in loader:
            yield batch[0].tolist()
def begin():
    torch.manual_seed(0)
    return cycle(DataLoader(TensorDataset(torch.arange(8)), batch_size=2, shuffle=True))
batches = begin()
plain = [next(batches) for _ in range(15)]
batches, ours = begin(), []
"""
TRAINING = "%%gpufit train --memory 1GiB\nfor _ in range(6):\n    ours.append(next(batches))"
LOOK = "ours.append(next(batches))"


@pytest.mark.slow(10)
@pytest.mark.usefixtures("no_worker_outlives_its_test")
def test_batches_go_on_from_cell_to_cell(kernel: Kernel) -> None:
    for cell in (SETUP, LOOK, TRAINING, LOOK, TRAINING, LOOK):
        kernel.check(cell)
    kernel.check("assert ours == plain, (ours, plain)\nimport inspect; assert inspect.isgenerator(batches)")
