"""BERT for sequence classification, as transformers 4.15 computed it on torch 1.10; and its Adafactor.

Written anew, for the order in which memory is taken and for what autograd keeps; the numbers it learns do not matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class OldSoftmax(torch.autograd.Function):
    """Until torch 1.11 softmax kept its input besides its result (pytorch#64000, mended in #65242)."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        y = torch.softmax(x, -1)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> torch.Tensor:
        x, y = ctx.saved_tensors
        return torch._softmax_backward_data(grads[0], y, -1, x.dtype)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.out, self.norm, self.dropout = nn.Linear(width, width), nn.LayerNorm(width), nn.Dropout(0.1)

    def split(self, x: torch.Tensor) -> torch.Tensor:
        B, S, C = x.shape
        return x.view(B, S, self.heads, C // self.heads).permute(0, 2, 1, 3)  # (B, H, S, C/H)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        query, key, value = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = torch.matmul(query, key.transpose(-1, -2))  # (B, H, S, S)
        scores = scores / math.sqrt(query.shape[-1])
        scores = scores + mask
        shares = self.dropout(OldSoftmax.apply(scores))  # type: ignore[no-untyped-call]
        mixed = torch.matmul(shares, value).permute(0, 2, 1, 3).contiguous().view(x.shape)
        return self.norm(self.dropout(self.out(mixed)) + x)  # type: ignore[no-any-return]


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(0.1)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.attention(x, mask)
        return self.norm(self.dropout(self.down(F.gelu(self.up(x)))) + x)  # type: ignore[no-any-return]


class Bert(nn.Module):
    def __init__(self, width: int = 1024, layers: int = 24, heads: int = 16, recompute: bool = False) -> None:
        super().__init__()
        self.recompute = recompute
        self.words, self.places, self.kinds = (
            nn.Embedding(30522, width),
            nn.Embedding(512, width),
            nn.Embedding(2, width),
        )
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(0.1)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.pooler, self.head = nn.Linear(width, width), nn.Linear(width, 2)

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        places = torch.arange(ids.shape[1], device=ids.device)[None]
        x = self.words(ids) + self.kinds(torch.zeros_like(ids))
        x = self.dropout(self.norm(x + self.places(places)))  # (B, S, C)
        mask = (1.0 - torch.ones(ids.shape, device=ids.device)[:, None, None, :]) * -10000.0
        for layer in self.layers:
            x = checkpoint(layer, x, mask, use_reentrant=True) if self.recompute else layer(x, mask)
        pooled = self.dropout(torch.tanh(self.pooler(x[:, 0])))
        return F.cross_entropy(self.head(pooled), labels)


class Adafactor(torch.optim.Optimizer):
    """Without relative steps or scaled parameters: a row and a column stand for the second moment."""

    def __init__(self, params: Iterable[nn.Parameter], lr: float = 1e-3) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._step(p, group["lr"])

    def _step(self, p: nn.Parameter, lr: float) -> None:
        assert p.grad is not None
        state, square = self.state[p], p.grad**2 + 1e-30
        if p.dim() < 2:
            whole = state.setdefault("whole", torch.zeros_like(p))
            update = whole.mul_(0.99).add_(square * 0.01).rsqrt().mul_(p.grad)
        else:
            row = state.setdefault("row", torch.zeros(p.shape[:-1], device=p.device))
            column = state.setdefault("column", torch.zeros(p.shape[-1:], device=p.device))
            row.mul_(0.99).add_(square.mean(dim=-1) * 0.01)
            column.mul_(0.99).add_(square.mean(dim=-2) * 0.01)
            factor = (row / row.mean(dim=-1, keepdim=True)).rsqrt_().unsqueeze(-1)
            update = torch.mul(factor, column.unsqueeze(-2).rsqrt()).mul_(p.grad)
        update.div_((update.norm(2) / update.numel() ** 0.5).clamp_(min=1.0)).mul_(lr)
        p.add_(-update)


class Adam8bit(torch.optim.Optimizer):
    """What bitsandbytes' keeps: both moments in bytes, one scale per 2048 of them; its one kernel writes in place."""

    SMALL, BLOCK = 4096, 2048  # elements below which a moment stays whole; elements of a block

    def __init__(self, params: Iterable[nn.Parameter], lr: float = 1e-3) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._make_state(p)
                    p.add_(p.grad, alpha=-group["lr"])

    def _make_state(self, p: nn.Parameter) -> None:
        state = self.state[p]
        for name in ("first", "second") if not state else ():
            small = p.numel() < self.SMALL
            state[name] = torch.zeros_like(p, dtype=torch.float32 if small else torch.uint8)
            if not small:
                state[f"{name} scales"] = torch.zeros(-(-p.numel() // self.BLOCK), device=p.device)
