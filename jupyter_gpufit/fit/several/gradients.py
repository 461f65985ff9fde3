"""The gradients of large matrices that are used by pieces: in parts as soon as there is anything of them.

Autograd sums what it is given into `p.grad`, whole. So what knows pieces adds this rank's part itself, to a gradient
that is one to everybody else: a tensor without memory on the device, of which each rank has a part.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch.autograd.graph import get_gradient_edge
from torch.utils.weak import WeakIdKeyDictionary

from ...devices import sides
from ..rungs.host import drop
from ..rungs.operations import storage_of
from .shard import part_of
from .shards import Shards, tell

LARGE = 1 << 20  # numbers

_unheard = torch._C.DisableTorchFunction


class LargeGradients:
    """Those of one run."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._shapes = WeakIdKeyDictionary()  # by their parameters

    def begin_forward(self, parameters: Iterable[torch.Tensor]) -> None:
        """Parameters have parted, so that there is room."""
        shards = self._shards
        self.forget_unused()
        for p in parameters:
            if p.requires_grad and p not in self._shapes and self.is_large(p) and shards.in_parts_now(p) is not None:
                self._shapes[p] = self._shape_of(p)

    def forget_unused(self) -> None:
        """Gradients that the cell has dropped."""
        for p in [p for p in self._shapes if p.grad is None]:
            box = [self._shapes.pop(p)]
            if _is_others(box):
                continue  # it dies as any other
            if (unused := self._shards.of(box[0])) is not None:
                self._shards.leave_out(unused)
            self._shapes[p] = box[0]

    def is_large(self, p: torch.Tensor) -> bool:
        """Whether what knows pieces uses it by these."""
        return p.dim() == 2 and p.numel() >= LARGE and self._shards.of(p) is not None

    def are_kept(self, p: torch.Tensor) -> bool:
        """Whether the backward that is under way only leaves it for later, so that nobody need see it whole."""
        if p._backward_hooks or p._post_accumulate_grad_hooks:
            return False
        with _unheard():
            grad = p.grad
        if grad is not None and (grad.requires_grad or self._shards.in_parts_now(grad) is None):
            return False
        try:
            return torch._C._will_engine_execute_node(get_gradient_edge(p).node)
        except RuntimeError:  # it is torch.autograd.grad()
            return False

    @contextmanager
    def part(self, p: torch.Tensor, *, wanted: bool) -> Iterator[torch.Tensor | None]:
        """This rank's, to be added to; None where it is not wanted."""
        if not wanted:
            yield None
            return
        shards = self._shards
        with _unheard():
            begins = p.grad is None
        shards.meet()  # whoever reads the one of before has done so
        if begins:
            self._begin(p)
        with _unheard():
            shard = None if p.grad is None else shards.of(p.grad)
        assert shard is not None
        try:
            yield shard.mine
        finally:
            shards.changed(shard)
            if not begins:
                shards.meet()

    def _begin(self, p: torch.Tensor) -> None:
        shards = self._shards
        with shards.by_itself():
            box = [self._shapes.pop(p)] if p in self._shapes else []
            if not box or _is_others(box):
                box = [self._shape_of(p)]
            self._shapes[p] = shape = box[0]
            torch.autograd.graph.increment_version(shape)
            storage = storage_of(shape)
            assert storage is not None
            if (before := shards.of(shape)) is not None:
                shards.leave_out(before)
            own, each = part_of(p, shards.group)
            mine = torch.zeros(own.stop - own.start, dtype=p.dtype, device=p.device)
            if sides.on_device(storage):
                sides.note(mine)
            shards.enter(storage, p.numel(), each, own, mine, p)
            p.grad = shape

    def _shape_of(self, p: torch.Tensor) -> torch.Tensor:
        """A tensor of its looks, without memory on the device; torch makes none without having had it for a moment."""
        with self._shards.by_itself():
            made = torch.empty(p.shape, dtype=p.dtype, device=p.device)
            storage, given = storage_of(made), storage_of(p)
            assert storage is not None and given is not None
            if sides.on_device(given):
                sides.note(made)
            drop(storage, made.nbytes)
            tell(storage, False)
            return made


def gradients_in(shards: Shards) -> LargeGradients:
    found = shards.beside.get(LargeGradients)
    if found is None:
        found = shards.beside[LargeGradients] = LargeGradients(shards)
    assert isinstance(found, LargeGradients)
    return found


def _is_others(box: list[torch.Tensor]) -> bool:
    """Whether somebody else has what is in it, or a view of that, as a gradient of before."""
    return _holders(box) != _NO_OTHERS


def _holders(box: list[torch.Tensor]) -> tuple[int, ...]:
    used = torch._C._storage_Use_Count(box[0].untyped_storage()._cdata)
    return sys.getrefcount(box[0]), box[0]._use_count(), used  # type: ignore[attr-defined]


_NO_OTHERS = _holders([torch.empty(1)])
