"""Convolutions of float16 on a CPU: in float32, and rounded.

torch's own have no quick backward there (70 times the time of float32), and on most CPUs no forward. They are replaced
in the whole process, by the first that needs it: who asks for none has the CPU's kernels, and its bits.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch._C import DispatchKey, DispatchKeySet

# By this key an operation has the kernel that is for every device, which asks for that of the CPU in its turn.
_AS_EVER = DispatchKeySet(DispatchKey.PrivateUse1)


@cache
def quicken() -> torch.library.Library:
    """Once and for all."""
    library = torch.library.Library("aten", "IMPL")
    library.impl("convolution", _convolution, "CPU", with_keyset=True)
    library.impl("convolution_backward", _backward, "CPU", with_keyset=True)
    return library


def _convolution(_: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *how: Any) -> torch.Tensor:
    convolve = torch.ops.aten.convolution.default.redispatch
    if x.dtype is not torch.float16:
        made: torch.Tensor = convolve(_AS_EVER, x, weight, bias, *how)
        return made
    made = convolve(_AS_EVER, x.float(), weight.float(), None if bias is None else bias.float(), *how)
    return made.half()


def _backward(_: Any, above: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, *how: Any) -> tuple[Any, ...]:
    go_back = torch.ops.aten.convolution_backward.default.redispatch
    if x.dtype is not torch.float16:
        made: tuple[Any, ...] = go_back(_AS_EVER, above, x, weight, *how)
        return made
    made = go_back(_AS_EVER, above.float(), x.float(), weight.float(), *how)
    return tuple(one if one is None else one.half() for one in made)
