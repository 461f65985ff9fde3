"""The models that plans are tried with, each with what is hard about it; small enough for a second in all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

WORDS, WIDE, LONG, MANY = 64, 32, 8, 4


class Block(nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(WIDE), nn.LayerNorm(WIDE)
        self.attention = nn.MultiheadAttention(WIDE, 2, dropout=dropout, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(WIDE, 4 * WIDE), nn.GELU(), nn.Linear(4 * WIDE, WIDE), nn.Dropout(dropout))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (B, T, C)
        h = self.n1(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.n2(x))  # type: ignore[no-any-return]


class GPT(nn.Module):
    def __init__(self, tied: str = "", dropout: float = 0.0) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDE), nn.Parameter(torch.zeros(LONG, WIDE))
        self.blocks = nn.ModuleList(Block(dropout) for _ in range(3))
        self.head = nn.Linear(WIDE, WORDS, bias=False)
        self.tied = tied
        if tied == "head":
            self.head.weight = self.words.weight

    def forward(self, words: torch.Tensor) -> torch.Tensor:  # (B, T)
        x = self.words(words) + self.places
        for block in self.blocks:
            x = block(x)
        return F.linear(x, self.words.weight) if self.tied == "use" else self.head(x)


class Residual(nn.Module):
    def __init__(self, wide: int) -> None:
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(wide, wide, 3, padding=1), nn.Conv2d(wide, wide, 3, padding=1)
        self.b1, self.b2 = nn.BatchNorm2d(wide), nn.BatchNorm2d(wide, momentum=None)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(x + self.b2(self.c2(self.act(self.b1(self.c1(x))))))  # type: ignore[no-any-return]


class Pictures(nn.Module):
    """Convolutions with BatchNorm, whose statistics a second run must leave alone."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.blocks = nn.Conv2d(3, 8, 3), nn.Sequential(*(Residual(8) for _ in range(3)))
        self.head = nn.Linear(8, WORDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = words.float().repeat(1, 12).view(len(words), 3, 4, -1) / WORDS
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))  # type: ignore[no-any-return]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.lstm = nn.Embedding(WORDS, WIDE), nn.LSTM(WIDE, WIDE, 2, dropout=0.2, batch_first=True)
        self.head = nn.Linear(WIDE, WORDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.words(words))[0])  # type: ignore[no-any-return]


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDE)
        layer = nn.TransformerEncoderLayer(WIDE, 2, 64, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 3)
        self.head = nn.Linear(WIDE, WORDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.words(words)))  # type: ignore[no-any-return]


class Dense(nn.Sequential):
    def __init__(self) -> None:
        layers = [nn.Sequential(nn.Linear(LONG, LONG), nn.ReLU(inplace=True)) for _ in range(4)]
        super().__init__(*layers, nn.Linear(LONG, WORDS))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return super().forward(words / WORDS)  # type: ignore[no-any-return, no-untyped-call]


MODELS: dict[str, Callable[[], nn.Module]] = {
    "dense": Dense,
    "GPT": GPT,
    "GPT with a tied head": lambda: GPT("head"),
    "GPT tied by use": lambda: GPT("use"),
    "pictures": Pictures,
    "encoder with dropout": Encoder,
    "LSTM": Recurrent,
}
OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "AdamW": lambda p: torch.optim.AdamW(p, 1e-2),
    "SGD": lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9),
    "RMSprop": lambda p: torch.optim.RMSprop(p, 1e-2),
    "Adafactor": lambda p: torch.optim.Adafactor(p, 1e-2),
}


def batch() -> torch.Tensor:
    return torch.randint(0, WORDS, (MANY, LONG))


def loss_of(said: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    if said.dim() == 2:
        return F.cross_entropy(said, words[:, 0])
    return F.cross_entropy(said.flatten(0, 1), words.flatten())
