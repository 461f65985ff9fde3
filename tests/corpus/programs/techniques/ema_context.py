"""An EMA class with a context manager that swaps the weights in for validation."""
import contextlib
import math

import torch
from torch import nn

torch.manual_seed(21)
device = "cuda:0" if torch.cuda.is_available() else "cpu"

# %%
class EMA:
    def __init__(self, model, decay=0.98):
        self.decay, self.steps = decay, 0
        self.shadow = {k: v.detach().clone() for k, v in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model):
        self.steps += 1
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        for k, v in model.state_dict().items():
            self.shadow[k].mul_(decay).add_(v, alpha=1 - decay)

    @contextlib.contextmanager
    def average_parameters(self, model):
        kept = {k: v.clone() for k, v in model.state_dict().items()}
        model.load_state_dict(self.shadow)
        try:
            yield model
        finally:
            model.load_state_dict(kept)


def sample(n):
    x = torch.rand(n, 1, device=device) * 4 - 2
    return x, torch.sin(3 * x) + 0.3 * torch.randn_like(x)


# %%
net = nn.Sequential(nn.Linear(1, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1)).to(device)
ema = EMA(net)
opt = torch.optim.NAdam(net.parameters(), lr=5e-3)
x_val, y_val = sample(512)

# %% train
best = math.inf
for step in range(1, 801):
    x, y = sample(64)
    loss = (net(x) - y).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    ema.update(net)
    if step % 50 == 0:
        with ema.average_parameters(net) as averaged, torch.no_grad():
            val = (averaged(x_val) - y_val).pow(2).mean().item()
        best = min(best, val)
        if step % 200 == 0:
            print(f"{step}: {loss.item():.4f} val {val:.4f}")

# %%
print(f"{best:.4f}", ema.steps)
