"""Counts what tensors take on the device: from birth to death, but for the time that they are on the host."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from jupyter_gpufit.estimate.reckoning.record import Trace


class Ledger(TorchDispatchMode):
    """Bytes of all tensors' storages that are alive; an address that was freed is used again."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.peak = 0
        self._alive: dict[int, Any] = {}
        self._away: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for t in tree_leaves(out):
            if isinstance(t, torch.Tensor):
                self._enter(t.untyped_storage())
        return out

    def _enter(self, storage: torch.UntypedStorage) -> None:
        address, size = storage._cdata, storage.nbytes()
        known = self._alive.get(address)
        if known is not None and known() is storage:
            return

        def gone(ref: object) -> None:
            if self._alive.get(address) is ref:
                del self._alive[address]
            if address in self._away:
                self._away.remove(address)
            else:
                self.now -= size

        self._alive[address] = weakref.ref(storage, gone)
        self.now += size
        self.peak = max(self.peak, self.now)

    def follow(self, storage: torch.UntypedStorage, back: bool) -> None:
        """It is on the host, or on the device again."""
        self.now += storage.nbytes() if back else -storage.nbytes()
        self.peak = max(self.peak, self.now)
        self._away ^= {storage._cdata}


def foreseen(trace: Trace) -> int:
    """Bytes of tensors at the peak of a trial run: on the processor no kernel has a GPU's workspace."""
    now = peak = 0
    for change in trace.changes:
        block = trace.blocks[change.block]
        if block.kind != "workspace":
            now += block.size if change.alive else -block.size
            peak = max(peak, now)
    return peak
