"""The models of bench/fit.py: each kind of layer whose memory differs, and no kernel that only one side has."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class Dense(nn.Sequential):
    """8 pairs of layers, 256 and 1024 wide."""

    def __init__(self) -> None:
        layers = (nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256), nn.ReLU()) for _ in range(8))
        super().__init__(*layers)

    @staticmethod
    def batch(device: str) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(1024, 256, device=device), torch.randint(0, 256, (1024,), device=device)


class _Block(nn.Module):
    def __init__(self, wide: int) -> None:
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(wide), nn.LayerNorm(wide)
        self.qkv, self.out = nn.Linear(wide, 3 * wide), nn.Linear(wide, wide)
        self.mlp = nn.Sequential(nn.Linear(wide, 4 * wide), nn.GELU(), nn.Linear(4 * wide, wide), nn.Dropout(0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, T, C = x.shape
        q, k, v = (part.view(B, T, 4, C // 4).transpose(1, 2) for part in self.qkv(self.n1(x)).split(C, dim=2))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(B, T, C))
        return x + self.mlp(self.n2(x))  # type: ignore[no-any-return]


class Words(nn.Module):
    """A GPT of 6 layers of 128."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(500, 128), nn.Parameter(torch.zeros(128, 128))
        self.blocks = nn.ModuleList(_Block(128) for _ in range(6))
        self.head = nn.Linear(128, 500, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(x).transpose(1, 2)  # type: ignore[no-any-return]

    @staticmethod
    def batch(device: str) -> tuple[torch.Tensor, torch.Tensor]:
        ids = torch.randint(0, 500, (16, 128), device=device)
        return ids, ids


class _Residual(nn.Module):
    def __init__(self, wide: int) -> None:
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(wide, wide, 3, padding=1), nn.Conv2d(wide, wide, 3, padding=1)
        self.b1, self.b2 = nn.BatchNorm2d(wide), nn.BatchNorm2d(wide)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(x + self.b2(self.c2(F.relu(self.b1(self.c1(x))))))


class Pictures(nn.Module):
    """6 residual blocks of 24 channels."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 24, 3, padding=1)
        self.blocks = nn.Sequential(*(_Residual(24) for _ in range(6)))
        self.head = nn.Linear(24, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))  # type: ignore[no-any-return]

    @staticmethod
    def batch(device: str) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(16, 3, 32, 32, device=device), torch.randint(0, 10, (16,), device=device)


class Stack(nn.Sequential):
    """Layers (of 4 MiB as they are) and next to no activations: what is large is the model."""

    def __init__(self, layers: int, wide: int = 1024) -> None:
        super().__init__(*(nn.Linear(wide, wide, bias=False) for _ in range(layers)))
        self.wide = wide

    def batch(self, device: str) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(32, self.wide, device=device), torch.randint(0, self.wide, (32,), device=device)
