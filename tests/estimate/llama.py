"""Llama 2 with LoRA on query and value, as litgpt of October 2023 trained it; written anew."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY, CHUNK = 32000, 128


class Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(torch.mean(wide * wide, dim=-1, keepdim=True) + 1e-5)
        return self.weight * wide.to(x.dtype)


class Lora(nn.Module):
    """Query, key and value in one, with low-rank updates of query and value."""

    def __init__(self, width: int, rank: int = 8) -> None:
        super().__init__()
        self.linear = nn.Linear(width, 3 * width, bias=False)
        self.down = nn.Parameter(torch.zeros(2 * rank, width))
        self.up = nn.Parameter(torch.zeros(2 * width, rank))
        self.dropout = nn.Dropout(0.05)
        self.width = width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        frozen = self.linear(x)  # (B, T, 3C)
        low = F.linear(self.dropout(x), self.down)  # (B, T, 2R)
        updates = F.conv1d(low.transpose(-2, -1), self.up.unsqueeze(-1), groups=2).transpose(-2, -1)  # (B, T, 2C)
        return frozen + self.padded(updates) * 2.0  # type: ignore[no-any-return]

    def padded(self, updates: torch.Tensor) -> torch.Tensor:
        """Zeros where the keys are."""
        whole = updates.new_zeros((*updates.shape[:-1], 3 * self.width)).view(-1, 3 * self.width)
        places = torch.arange(2 * self.width, device=updates.device)
        places = places + (places >= self.width) * self.width
        filled = whole.index_copy(1, places, updates.reshape(-1, 2 * self.width))
        return filled.view(*updates.shape[:-1], -1)


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    rotated = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return ((x * cos) + (rotated * sin)).type_as(x)


class Block(nn.Module):
    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = Norm(width), Norm(width)
        self.attn, self.proj = Lora(width), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        B, T, C = x.shape
        qkv = self.attn(self.norm_1(x)).view(B, T, self.heads, 3, C // self.heads).permute(0, 2, 3, 1, 4)
        q, k, v = qkv.split((1, 1, 1), dim=2)
        q, k, v = (part.reshape(B, -1, T, C // self.heads) for part in (q, k, v))  # (B, H, T, C/H)
        q, k = turned(q, cos, sin), turned(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, C)
        x = self.proj(y) + x
        h = self.norm_2(x)
        return self.down(F.silu(self.gate(h)) * self.up(h)) + x  # type: ignore[no-any-return]


class Llama(nn.Module):
    def __init__(self, layers: int, heads: int, width: int, inner: int) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList(Block(width, heads, inner) for _ in range(layers))
        self.norm, self.head = Norm(width), nn.Linear(width, VOCABULARY, bias=False)
        self.size = width // heads

    def forward(self, ids: torch.Tensor) -> list[torch.Tensor]:
        x = self.words(ids)
        cos = torch.ones(ids.shape[1], self.size, dtype=x.dtype, device=x.device)
        for block in self.blocks:
            x = block(x, cos, cos)
        return [self.head(part) for part in self.norm(x).split(CHUNK, dim=1)]


def loss_of(logits: list[torch.Tensor], targets: torch.Tensor) -> torch.Tensor:
    """Cross entropy by chunks."""
    logits[-1] = logits[-1][..., :-1, :]
    chunks = [chunk.reshape(-1, VOCABULARY) for chunk in logits]
    wanted = [chunk.reshape(-1) for chunk in targets[..., 1:].split(CHUNK, dim=1)]
    losses = [F.cross_entropy(c, w, reduction="none") for c, w in zip(chunks, wanted, strict=True)]
    return torch.cat(losses).mean()
