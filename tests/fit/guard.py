"""Flags each operation that reads a tensor whose bytes are on the host."""

from __future__ import annotations

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from jupyter_gpufit.devices import sides
from jupyter_gpufit.fit.rungs.operations import given_to


class Guard(TorchDispatchMode):
    """To be entered before a pager, so that it sees what the pager hands to the kernels."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flagged: list[str] = []
        self.seen = 0  # operations

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen += 1
        if not _only_views(func):
            tensors = list(given_to((args, kwargs)))
            if any(getattr(t.untyped_storage(), sides.AWAY, None) is not None for t in tensors):
                self.flagged.append(func._opname)
        return func(*args, **kwargs or {})


def _only_views(func: Any) -> bool:
    """It returns what shares the bytes, and looks at none of them."""
    returned = [one.alias_info for one in func._schema.returns]
    return any(alias is not None and not alias.is_write for alias in returned)
