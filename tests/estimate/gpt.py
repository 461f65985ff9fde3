"""GPT-2 small, by hand: what `from_pretrained` would build, less the numbers."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, T, C = x.shape
        parts = self.qkv(self.ln_1(x)).split(C, dim=2)
        q, k, v = (part.view(B, T, self.heads, C // self.heads).transpose(1, 2) for part in parts)  # (B, H, T, C/H)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1, is_causal=True)
        x = x + self.dropout(self.proj(y.transpose(1, 2).reshape(B, T, C)))
        return x + self.dropout(self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh")))  # type: ignore[no-any-return]


class Gpt(nn.Module):
    def __init__(self, layers: int = 12, width: int = 768, heads: int = 12, vocabulary: int = 50257) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(1024, width)
        self.dropout = nn.Dropout(0.1)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.dropout(self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device)))  # (B, T, C)
        for block in self.h:
            x = block(x)
        logits = self.head(self.ln(x))  # (B, T, V)
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), targets[:, 1:].flatten())
