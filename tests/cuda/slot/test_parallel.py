from __future__ import annotations

from collections import namedtuple
from typing import Any

import pytest
import torch
from torch import nn

from jupyter_gpufit.cuda.slot import Budget

Pair = namedtuple("Pair", "x y")


class Told(nn.Module):
    """Tells on which devices its inputs are."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        self.given = args, kwargs
        return self.layer(args[0])


def test_data_parallel_moves_its_model_and_its_inputs_as_with_one_gpu(slot: Budget) -> None:
    torch.manual_seed(0)
    model = Told()
    expected = model.layer(x := torch.randn(4, 3))

    parallel = nn.DataParallel(model)
    out = parallel(x, [x, 1], Pair(x, "y"), at={"x": (x,)})

    assert (parallel.device_ids, parallel.output_device, parallel.module) == ([0], 0, model)
    assert all(p.is_cuda for p in parallel.parameters()) and out.is_cuda
    assert out.cpu().equal(expected)
    (first, listed, pair), named = model.given
    assert first.is_cuda and listed[0].is_cuda and listed[1] == 1
    assert type(pair) is Pair and pair.x.is_cuda and pair.y == "y"
    assert named["at"]["x"][0].is_cuda and not x.is_cuda


def test_data_parallel_that_was_made_for_more_gpus_runs_on_the_one_there_is(slot: Budget) -> None:
    with pytest.warns(UserWarning, match="there is one device here, not 2"):
        parallel = nn.DataParallel(nn.Linear(3, 2), device_ids=[0, 1])

    assert parallel(torch.randn(4, 3)).is_cuda


def test_the_function_that_does_the_same(slot: Budget) -> None:
    layer = nn.Linear(3, 2).cuda()

    assert nn.parallel.data_parallel(layer, torch.randn(4, 3), range(1)).is_cuda
    assert nn.parallel.data_parallel(layer, (torch.randn(4, 3),), module_kwargs={}).shape == (4, 2)
