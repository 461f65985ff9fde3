"""Runs one cell on several processes, as the ranks of a job do, over gloo."""

from __future__ import annotations

import io
import os
import socket
import tempfile
import traceback
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from jupyter_gpufit.fit.several.calls import around

Cell = Callable[[], Any]


class OverGloo:
    """A group of processes."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self.calls = 0

    def all_reduce(self, tensor: torch.Tensor) -> None:
        self.calls += 1
        dist.all_reduce(tensor)

    def all_gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        self.calls += 1
        found = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(found, tensor)
        return found

    def broadcast(self, tensor: torch.Tensor, src: int) -> None:
        self.calls += 1
        dist.broadcast(tensor, src)

    def offer(self, find: Callable[[int, str], torch.Tensor | None]) -> None:
        raise NotImplementedError

    def read(self, rank: int, number: int, name: str, out: torch.Tensor) -> None:
        raise NotImplementedError


def run_on(size: int, cell: Cell) -> list[Any]:
    """What the cell returns on each of so many ranks; its error, where it has one."""
    if size == 1:
        return [cell()]
    with tempfile.TemporaryDirectory() as folder:
        started = [_started(rank, size, folder, cell) for rank in range(size)]
        found = [_result(*one) for one in started]
    for one in found:
        if isinstance(one, BaseException):
            raise one
    return found


def _started(rank: int, size: int, folder: str, cell: Cell) -> tuple[int, socket.socket]:
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid:
        theirs.close()
        return pid, ours
    ours.close()
    try:
        with theirs, theirs.makefile("wb") as out:
            out.write(_ran(rank, size, folder, cell))
    finally:
        os._exit(0)


def _ran(rank: int, size: int, folder: str, cell: Cell) -> bytes:
    store = torch._C._distributed_c10d.FileStore(f"{folder}/store", size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    try:
        with around(OverGloo(rank, size)):
            found = cell()
    except BaseException as error:
        error.add_note(f"on rank {rank}:\n{traceback.format_exc()}")
        found = error
    buffer = io.BytesIO()
    try:
        torch.save(found, buffer)
    except Exception as error:
        buffer = io.BytesIO()
        torch.save(RuntimeError(f"{found!r}: {error!r}"), buffer)
    return buffer.getvalue()


def _result(pid: int, ours: socket.socket) -> Any:
    with ours, ours.makefile("rb") as source:
        said = source.read()
    os.waitpid(pid, 0)
    return torch.load(io.BytesIO(said), weights_only=False) if said else RuntimeError("a rank died")


def far(one: Any, other: Any) -> Any:
    """The largest distance of two results, relative to the size of what is compared."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), one.keys() ^ other.keys()
        return max((far(one[name], other[name]) for name in one), default=0.0)
    if isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        return max((far(a, b) for a, b in zip(one, other, strict=True)), default=0.0)
    if isinstance(one, torch.Tensor):
        assert one.shape == other.shape and one.dtype == other.dtype
        if not one.is_floating_point():
            return 0.0 if torch.equal(one, other) else 1.0
        one, other = one.double(), other.double()
        return _or_inf(((one - other).norm() / other.norm().clamp(min=1e-12)).item()) if one.numel() else 0.0
    if isinstance(one, float):
        return _or_inf(abs(one - other) / max(abs(other), 1e-12))
    return 0.0 if one == other else 1.0


def _or_inf(distance: float) -> float:
    """What is no number is far from all: max() would pass it over."""
    return distance if distance == distance else float("inf")
