"""torch.distributed in a traced cell: a group of any size begins at once, and on the stand-in nobody answers.

What a process of it takes is its own: its share of what is gathered, and the buckets of DistributedDataParallel. On the
host a group of one really speaks, with itself; of several, what the others would have said is not known.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel, distributed

from ...cuda.stand_in.device import STAND_IN

_SILENT = "silent"  # a backend


def begin() -> None:
    if not dist.is_available():
        return
    from torch._C._distributed_c10d import HashStore
    from torch.testing._internal.distributed.fake_pg import _create_fake_pg

    dist.Backend.register_backend(_SILENT, _create_fake_pg, extended_api=True, devices=["cpu", STAND_IN])
    _begin_at_once(HashStore, dist.init_process_group, dist.new_group, dist.get_backend)
    _reduce_nothing(DistributedDataParallel)


def _begin_at_once(
    store: Callable[..., Any], init: Callable[..., Any], new: Callable[..., Any], named: Callable[..., Any]
) -> None:
    asked = {}  # the backend's name, which a cell may ask for

    def init_process_group(
        backend: str | None = None,
        init_method: str | None = None,
        timeout: Any = None,
        world_size: int = -1,
        rank: int = -1,
        *args: Any,
        **given: Any,
    ) -> None:
        members = world_size if world_size > 0 else int(os.environ.get("WORLD_SIZE", "1"))
        number = rank if rank >= 0 else int(os.environ.get("RANK", "0"))
        if dist.is_initialized():  # by another process of the cell's: they all run in this one
            dist.destroy_process_group()
        asked["backend"] = dist.Backend(backend or "nccl")
        init(_speaking(members), store=store(), rank=number, world_size=members)

    def new_group(ranks: Any = None, timeout: Any = None, backend: Any = None, *args: Any, **given: Any) -> Any:
        members = dist.get_world_size() if ranks is None else len(ranks)
        return new(ranks, None, _speaking(members))

    def get_backend(group: Any = None) -> Any:
        found = named(group)
        by_torch = sys._getframe(1).f_globals.get("__name__", "").startswith("torch.")
        return found if by_torch else asked["backend"]

    for one in (init_process_group, new_group, get_backend):
        for module in (dist, dist.distributed_c10d):
            setattr(module, one.__name__, one)


def _speaking(members: int) -> str:
    with_itself = members == 1 and dist.is_gloo_available()
    return f"cpu:{'gloo' if with_itself else _SILENT},{STAND_IN}:{_SILENT}"


def _reduce_nothing(parallel: Any) -> None:
    """Its buckets are there, and what is in them is nobody's."""
    real = parallel.__init__

    def done(state: object, bucket: Any) -> torch.futures.Future[torch.Tensor]:
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    def begin(self: Any, *args: Any, static_graph: bool = False, **kwargs: Any) -> None:
        real(self, *args, **kwargs)
        if static_graph or self.find_unused_parameters:  # it would note in pinned memory which were used
            self.require_backward_grad_sync = False
        dist._register_comm_hook(self.reducer, None, done)  # type: ignore[attr-defined]

    parallel.__init__ = begin
    parallel.register_comm_hook = lambda self, state, hook: None
    setattr(distributed, "_verify_param_shape_across_processes", lambda *args, **kwargs: None)  # noqa: B010 - not exported
