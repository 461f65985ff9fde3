"""Coupling layers learn two moons: torch.distributions in the loss, scheduler with restarts."""
import math

import numpy as np
import torch
from torch import nn
from torch.distributions import Independent, Normal
from torch.optim.lr_scheduler import CosineAnnealingWarmRestarts

np.random.seed(8)
torch.manual_seed(8)
device = "cuda" if torch.cuda.is_available() else "cpu"

# %%
def moons(n, noise=0.08):
    a = np.random.uniform(0, np.pi, n)
    upper = np.random.rand(n) < 0.5
    x = np.where(upper, np.cos(a), 1 - np.cos(a))
    y = np.where(upper, np.sin(a), 0.5 - np.sin(a))
    return (np.stack([x, y], 1) + noise * np.random.randn(n, 2)).astype(np.float32)


class Coupling(nn.Module):
    def __init__(self, flip, width=48):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 2))

    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        if self.flip:
            a, b = b, a
        scale, shift = self.net(a).chunk(2, dim=1)
        scale = torch.tanh(scale)
        b = (b - shift) * torch.exp(-scale)
        return torch.cat((b, a) if self.flip else (a, b), 1), -scale.sum(1)


class Flow(nn.Module):
    def __init__(self, depth=6):
        super().__init__()
        self.layers = nn.ModuleList([Coupling(i % 2 == 0) for i in range(depth)])
        self.register_buffer("loc", torch.zeros(2))
        self.register_buffer("scale", torch.ones(2))

    @property
    def base(self):
        return Independent(Normal(self.loc, self.scale), 1)

    def log_prob(self, x):
        total = x.new_zeros(len(x))
        for layer in self.layers:
            x, logdet = layer(x)
            total = total + logdet
        return self.base.log_prob(x) + total


# %%
flow = Flow().to(device)
optimizer = torch.optim.Adam(flow.parameters(), lr=5e-3)
scheduler = CosineAnnealingWarmRestarts(optimizer, T_0=60, T_mult=2)
best, best_state = math.inf, None

# %% train
for it in range(180):
    x = torch.from_numpy(moons(256)).to(device)
    loss = -flow.log_prob(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step(it)
    if loss.item() < best:
        best, best_state = loss.item(), {k: v.clone() for k, v in flow.state_dict().items()}
    if (it + 1) % 60 == 0:
        print(f"{it + 1:4d} nll {loss.item():.3f} best {best:.3f}")
flow.load_state_dict(best_state)

# %%
print(flow.log_prob(torch.from_numpy(moons(64)).to(device)).mean().item() > -3)
