"""Sums and gatherings of real processes, with the same bits on each of them."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import psutil
import pytest
import torch
import xxhash

from jupyter_gpufit.worker.ranks.links import RankGone, RankLate, linked
from jupyter_gpufit.worker.ranks.shared import ALL_ADD, CHUNK, RankDiffers, SharedGroup
from tests.worker.ranks.crew import crew

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8)


def drawn(rank: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    made = torch.Generator().manual_seed(rank)
    if not dtype.is_floating_point:
        return torch.randint(0, 9, (count,), generator=made).to(dtype)
    return torch.randn(count, generator=made).to(dtype)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_a_sum_has_the_same_bits_on_all_ranks_for_all_sizes_and_dtypes(size: int) -> None:
    counts = (0, 1, 7, ALL_ADD // 4 + 5)  # all add up all, or each a share
    cases = [(count, dtype) for count in counts for dtype in DTYPES]
    cases += [(2 * CHUNK // 4 + 3, torch.float32)]  # several buffers

    def does(group: SharedGroup) -> str:
        digest = xxhash.xxh3_128()
        for count, dtype in cases:
            tensor, wanted = drawn(group.rank, count, dtype), torch.zeros(count, dtype=torch.float64)
            for rank in range(group.size):
                wanted += drawn(rank, count, dtype).double()
            group.all_reduce(tensor)
            near = 0.02 if dtype in (torch.float16, torch.bfloat16) else 1e-5
            assert torch.allclose(tensor.double(), wanted, atol=near), (count, dtype)
            digest.update(tensor.view(torch.uint8).numpy().tobytes() if count else b"none")
        return digest.hexdigest()

    first, *others = crew(size, does)
    assert len(first) == 32, first
    assert others == [first] * (size - 1)


@pytest.mark.slow
def test_what_is_gathered_may_have_a_shape_of_each_rank_and_what_is_broadcast_is_one_s() -> None:
    def does(group: SharedGroup) -> tuple[list[list[float]], list[float], list[float]]:
        mine = torch.full((group.rank + 1, 2), float(group.rank))
        gathered = group.all_gather(mine)
        large = torch.full((CHUNK // 2,), float(group.rank))  # more than one buffer
        rows = [one.flatten().tolist() for one in gathered]
        told = torch.arange(4.0) * (group.rank + 1)
        group.broadcast(told.view(2, 2).t(), 1)  # not contiguous
        return rows, [float(one.sum()) for one in group.all_gather(large)], told.tolist()

    for found in crew(3, does):
        rows, sums, told = found
        assert rows == [[0.0] * 2, [1.0] * 4, [2.0] * 6]
        assert sums == [0.0, CHUNK / 2, CHUNK]
        assert told == [0.0, 2.0, 4.0, 6.0]


@pytest.mark.slow
def test_ranks_that_do_not_do_the_same_hear_of_it_at_once() -> None:
    def does(group: SharedGroup) -> None:
        group.all_reduce(torch.zeros(3 + group.rank))

    first, other = crew(2, does)
    assert isinstance(first, RankDiffers) and isinstance(other, RankDiffers)
    assert first.rank == 1 and "(3,)" in first.mine and "(4,)" in first.theirs
    gathering = crew(2, lambda group: group.all_gather(torch.zeros(2)) if group.rank else group.meet())
    assert isinstance(gathering[0], RankDiffers) and "gather" in gathering[0].theirs


@pytest.mark.slow
def test_who_dies_is_known_at_once_and_who_hangs_after_the_patience() -> None:
    def dies(group: SharedGroup) -> None:
        if group.rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        group.meet()

    began = time.monotonic()
    first, other, dead = crew(3, dies, patience=60.0)
    assert time.monotonic() - began < 20 and dead is None
    assert {type(first), type(other)} == {RankGone}

    def hangs(group: SharedGroup) -> None:
        if group.rank == 1:
            while True:  # until the first one has ended
                group._links.hear([0])
        group.meet()

    first, other = crew(2, hangs, patience=0.3)
    assert isinstance(first, RankLate) and first.rank == 1


@pytest.mark.slow
def test_until_all_have_met_once_they_are_waited_for_longer() -> None:
    """Some compile before their first sum."""

    def comes_late(group: SharedGroup) -> float:
        group._at_first = 100
        if not group.rank:
            group.meet()
            try:
                group.meet()
            except RankLate as late:
                return late.seconds
        time.sleep(0.3)  # longer than the patience
        group.meet()
        while True:  # until the first one has ended
            group._links.hear([0])

    assert crew(2, comes_late, patience=0.1)[0] == 0.1


def test_who_is_alone_needs_nobody() -> None:
    def does(group: SharedGroup) -> list[float]:
        if group.rank:
            return []
        group.be_alone()
        tensor = torch.arange(3.0)
        group.all_reduce(tensor)
        group.broadcast(tensor, 0)
        group.meet()
        assert group.size == 1
        return group.all_gather(tensor)[0].tolist()

    assert crew(2, does)[0] == [0.0, 1.0, 2.0]


def _listening() -> set[Any]:
    here = psutil.Process()
    connections = getattr(here, "net_connections", None) or here.connections  # psutil before 6
    return {one for one in connections("all") if one.status == "LISTEN"}


def test_nothing_listens() -> None:
    before = _listening()
    links = linked(3)
    try:
        assert _listening() == before
    finally:
        for one in links:
            one.close()
