"""What a training of the matrix is, and how all of them begin."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    text: str
    before: str = ""  # an earlier cell
    slow_to_start: bool = False  # seconds for each process
    needs: tuple[str, ...] = ()  # libraries; see tests/libraries.py
    loads: tuple[str, ...] = ()  # modules that an earlier cell imported
    clock: str = ""  # lines of output with this word tell of the time
    puts_off: bool = False  # at some of its points it can be saved only a little later


BEGIN = """
import random, math, numpy as np, torch
import torch.nn as nn, torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset
random.seed(1); np.random.seed(2); torch.manual_seed(3)

def say(*things):
    print(*(thing.item().hex() if isinstance(thing, torch.Tensor) else thing for thing in things))
"""

DATA = """
X, Y = torch.randn(22, 6), torch.randint(0, 3, (22,))

class Noisy(Dataset):
    def __len__(self):
        return len(X)
    def __getitem__(self, i):
        x = X[i] + 0.01 * torch.randn(6) + random.random() * 0.01 + float(np.random.rand()) * 0.01
        return x, Y[i]
"""
