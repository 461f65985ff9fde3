"""The statistics of norms, while a part of a model runs again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.nn.modules.batchnorm import _NormBase


@contextmanager
def statistics_aside(block: nn.Module) -> Iterator[None]:
    """Let the second run of a norm change copies: the first has counted this batch.

    Not by a momentum of 0, as is often done: 0 times an infinite variance would leave nan.
    """
    norms = [m for m in block.modules() if isinstance(m, _NormBase) and m.training and m.track_running_stats]
    before = [dict(norm._buffers) for norm in norms]
    for norm in norms:
        for name, buffer in norm._buffers.items():
            if buffer is not None:
                norm._buffers[name] = buffer.clone()
    try:
        yield
    finally:
        for norm, buffers in zip(norms, before, strict=True):
            norm._buffers.update(buffers)
