"""Activation checkpointing, forward and backward hooks that keep statistics, gradient clipping by value."""
from collections import defaultdict
from functools import partial

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(6)
device = "cuda" if torch.cuda.is_available() else "cpu"

# %%
class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm, self.ff = nn.LayerNorm(d), nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * d, d))

    def forward(self, x):
        return x + self.ff(self.norm(x))


class Deep(nn.Module):
    def __init__(self, d=48, depth=8, out=5):
        super().__init__()
        self.blocks, self.head = nn.ModuleList(Block(d) for _ in range(depth)), nn.Linear(d, out)

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.training else block(x)
        return self.head(x)


statistics = defaultdict(list)


def keep(name, module, args, output):
    statistics[name].append(round(output.detach().std().item(), 6))


model = Deep().to(device)
handles = [b.register_forward_hook(partial(keep, f"block{i}")) for i, b in enumerate(model.blocks) if i % 4 == 0]
grad_norms = []
model.head.weight.register_hook(lambda grad: grad_norms.append(grad.norm().item()))
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
X = torch.randn(512, 48, device=device)
Y = (X[:, :5]).argmax(1)

# %% train
for epoch in range(10):
    for idx in torch.randperm(len(X), device=device).split(64):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(X[idx]), Y[idx])
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
    if epoch % 3 == 0:
        print(f"{epoch}: {loss.item():.4f} {statistics['block0'][-1]:.3f} {grad_norms[-1]:.4f}")
for handle in handles:
    handle.remove()

# %%
model.eval()
print((model(X).argmax(1) == Y).float().mean().item() > 0.5, len(grad_norms), {k: len(v) for k, v in statistics.items()})
