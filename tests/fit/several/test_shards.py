"""What lies in parts is put together by the cell's main thread alone, on each rank in the same order."""

from __future__ import annotations

import copy
import io
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch.utils.dlpack
from torch import nn

from jupyter_gpufit.devices import sides
from jupyter_gpufit.errors import NotInParts
from jupyter_gpufit.fit.several.group import Alone
from jupyter_gpufit.fit.several.passages import meet
from jupyter_gpufit.fit.several.shards import Shards, in_parts
from tests.worker.ranks.test_shards import in_a_child


class FirstOfTwo(Alone):
    """A rank whose other one has nothing but zeros; it notes what all make together."""

    size = 2

    def __init__(self) -> None:
        self.made: list[str | int] = []
        self.reads, self.goes_on = threading.Event(), threading.Event()
        self.goes_on.set()

    def all_reduce(self, tensor: torch.Tensor) -> None:
        self.made.append("meet")

    def broadcast(self, tensor: torch.Tensor, src: int) -> None:
        self.made.append(tensor.numel())
        if src:
            tensor.zero_()

    def read(self, rank: int, number: int, name: str, out: torch.Tensor) -> None:
        self.reads.set()
        assert self.goes_on.wait(60)
        out.zero_()


def parted() -> tuple[FirstOfTwo, Shards, nn.Parameter]:
    group, p = FirstOfTwo(), nn.Parameter(torch.ones(8192))
    return group, Shards(group, parameters=True), p


def in_a_thread(does: Callable[[], Any]) -> BaseException | None:
    """What a thread of the cell comes to."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(does).exception()


def handed_out(p: nn.Parameter) -> Any:
    return vars(torch.utils.dlpack)["to_dlpack"](p.detach())


WAYS: dict[str, Callable[[nn.Parameter], Any]] = {
    "reads": lambda p: p.sum(),
    "changes": lambda p: p.detach().add_(1),
    "saves": lambda p: torch.save(p, io.BytesIO()),
    "copies": copy.deepcopy,
    "has its memory": lambda p: p.detach().numpy(),
    "hands it out": handed_out,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_here", [False, True])
def test_a_thread_and_a_child_are_refused_what_is_in_parts_and_call_nobody(way: str, is_here: bool) -> None:
    group, shards, p = parted()
    with in_parts(shards):
        shards.begin_forward([p])
        if is_here:
            p.sum()
        group.made.clear()
        assert isinstance(in_a_thread(lambda: WAYS[way](p)), NotInParts)
        assert in_a_child(lambda: WAYS[way](p)) == "NotInParts"
        assert group.made == []


def test_a_thread_trains_what_is_its_own_and_the_ranks_hear_nothing_of_it() -> None:
    group, shards, p = parted()

    def trains() -> None:
        own = torch.ones(3, requires_grad=True)
        (own * 2).sum().backward()
        torch.ones(4).add_(1)

    with in_parts(shards):
        shards.begin_forward([p])
        p.grad = torch.ones(8192)
        shards.come([p])  # as in the midst of the main thread's backward
        group.made.clear()
        assert in_a_thread(trains) is None
        assert group.made == [] and shards.of(p.grad) is None


def test_while_a_checkpoint_is_read_in_another_thread_the_cell_has_its_parameters() -> None:
    group, shards, p = parted()
    storage = p.untyped_storage()
    with in_parts(shards):
        shards.begin_forward([p])
        group.goes_on.clear()
        reading = threading.Thread(target=sides.lies, args=(storage,))
        reading.start()
        assert group.reads.wait(60)
        assert p.sum().item() == 4096
        group.goes_on.set()
        reading.join()
        assert (p * 2).sum().item() == 8192


def test_another_library_is_handed_whole_memory_for_good() -> None:
    shards, p = Shards(Alone(), parameters=True), nn.Parameter(torch.ones(8192))
    with in_parts(shards):
        shards.begin_forward([p])
        handed = torch.utils.dlpack.from_dlpack(handed_out(p))
        torch.ones(8192).sum()
        assert handed.tolist() == [1.0] * 8192


def gathered(samples: int, given: Callable[[int], torch.Tensor]) -> list[str | int]:
    """By a layer's forward and backward, of so many samples."""
    group, layer = FirstOfTwo(), nn.Linear(64, 4096)
    shards = Shards(group, parameters=True)
    with in_parts(shards):
        shards.begin_forward(layer.parameters())
        x = given(samples).detach().requires_grad_()
        for _ in range(2):  # the second one begins with what the first has left
            nn.functional.linear(x, *meet(group, [*layer.parameters()])).sum().backward()
    return [one for one in group.made if one != "meet"]


@pytest.mark.parametrize(
    "given",
    [lambda many: torch.ones(many, 8, 64), lambda many: torch.ones(many, 16, 64)[:, :8]],
    ids=["dense", "cut from longer ones"],
)
def test_who_has_one_sample_gathers_in_the_order_of_who_has_two(given: Callable[[int], torch.Tensor]) -> None:
    assert gathered(1, given) == gathered(2, given)
