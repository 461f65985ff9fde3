"""Floating-point operations of an operator, counted as a model's: what a fused kernel computes twice counts once."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry


def flops_of(func: Any, args: Any, kwargs: Any, out: Any) -> int:
    if func._opname.endswith("_attention_backward"):
        return _attention_backward(*args[1:4])
    formula = flop_registry.get(func._overloadpacket)
    shapes = [one for one in args if not isinstance(one, torch.dtype)]  # torch takes mm's `out_dtype` for one
    with suppress(TypeError, ValueError, AssertionError):  # what torch cannot count costs no estimate
        return int(formula(*shapes, **kwargs, out_val=out)) if formula else 0
    return 0


def _attention_backward(query: Any, key: Any, value: Any) -> int:
    """Four products. torch counts the scores, which its kernels compute again, as a fifth."""
    batch, heads, rows, columns = query.shape
    return int(2 * batch * heads * rows * key.shape[2] * (2 * columns + 2 * value.shape[3]))
