"""What torch computes on the processor may depend on chance the first time: each such function is called once, here.

Intel's library of vector functions looks at the processor when it is first called. Where two threads do that at once,
one of them may compute its part of that first tensor by a less exact way: in plain torch 9 of 266 new processes had
half of a `tanh` off by 5e-5, and none of 280 that had called the functions on one thread before.
"""

from __future__ import annotations

import torch

_FUNCTIONS = "acos asin atan cos erf erfc erfinv exp expm1 log log10 log1p log2 sin sqrt tan tanh"
_done: list[bool] = []


def settle() -> None:
    """Once a process. So few numbers are computed by one thread."""
    if not _done:
        _done.append(True)
        for dtype in (torch.float32, torch.float64):
            numbers = torch.full((8,), 0.5, dtype=dtype, device="cpu")
            for name in _FUNCTIONS.split():
                getattr(torch, name)(numbers)
