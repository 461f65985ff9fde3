"""Which attention kernel CUDA would take. For the stand-in torch picks the one with S x S scores, unused on a GPU."""

from __future__ import annotations

from typing import Any

import torch

from ...devices.card import Card
from .autocast import cast_for_attention
from .device import on_stand_in

aten = torch.ops.aten
_HALF = (torch.float16, torch.bfloat16)


def attention(
    card: Card,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """torch.nn.functional.scaled_dot_product_attention, by the kernel that the card would run."""
    if not on_stand_in(query):
        found: torch.Tensor = torch._C._nn.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
        return found
    query, key, value, attn_mask = cast_for_attention(query, key, value, attn_mask)
    if _flash(card, query, value, attn_mask):
        return _run_flash(query, key, value, dropout_p, is_causal, scale)
    if enable_gqa:
        groups = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(groups, -3), value.repeat_interleave(groups, -3)
    if _efficient(query, value, attn_mask) and not (card.is_cpu and dropout_p > 0.0):  # which a CPU has none for
        return _run_efficient(query, key, value, attn_mask, dropout_p, is_causal, scale)
    math = aten._scaled_dot_product_attention_math
    result: torch.Tensor = math(query, key, value, attn_mask, dropout_p, is_causal, scale=scale)[0]
    return result


def _flash(card: Card, query: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None) -> bool:
    head = query.shape[-1]
    return (
        torch.backends.cuda.flash_sdp_enabled()
        and card.capability >= (8, 0)
        and query.dtype in _HALF
        and query.dim() == 4
        and mask is None
        and head <= 256
        and head == value.shape[-1]
    )


def _run_flash(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, dropout: float, causal: bool, scale: float | None
) -> torch.Tensor:
    head = query.shape[-1]
    scale = scale or head**-0.5
    if fill := -head % 8:
        query, key, value = (torch.nn.functional.pad(t, (0, fill)) for t in (query, key, value))
    kernel = aten._scaled_dot_product_flash_attention
    out: torch.Tensor = kernel(query, key, value, dropout, causal, False, scale=scale)[0]
    return out[..., :head] if fill else out


def _efficient(query: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None) -> bool:
    align = 8 if query.dtype in _HALF else 4
    return (
        torch.backends.cuda.mem_efficient_sdp_enabled()
        and query.dtype in (*_HALF, torch.float32)
        and query.dim() == 4
        and not (mask is not None and mask.requires_grad)
        and query.shape[-1] % align == 0
        and value.shape[-1] % align == 0
    )


def _run_efficient(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    dropout: float,
    causal: bool,
    scale: float | None,
) -> torch.Tensor:
    bias: Any = mask
    if mask is not None:
        if mask.dtype == torch.bool:
            bias = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(~mask, float("-inf"))
        bias = bias.expand(*query.shape[:2], query.shape[2], key.shape[2])
    needs_grad = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
    kernel = aten._scaled_dot_product_efficient_attention
    out: torch.Tensor = kernel(query, key, value, bias, needs_grad, dropout, causal, scale=scale)[0]
    return out
