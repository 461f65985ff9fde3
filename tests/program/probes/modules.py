"""torch's modules whose forward is the training: they are called as layers are, and have loops of an hour."""

from __future__ import annotations

from .registry import probe

probe(
    "a trainer that is a module, and its layers",
    """
import torch
from torch import nn

class Layers(nn.Module):
    def forward(self, x):
        for _ in range(2):
            x = x + 1
        return x

class Trainer(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net, self.seen = net, []
    def forward(self, steps, *, scale=1):
        for i in range(steps):
            self.seen.append(self.net(torch.tensor(i)).item() * scale)
            say(self.seen[-1])
        return len(self.seen)

trainer = Trainer(Layers())
found = [trainer(3), trainer(2, scale=2)]
found, trainer.seen
""",
)
