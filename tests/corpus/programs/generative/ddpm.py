"""Denoising diffusion on two-dimensional spirals: a schedule as buffers, an EMA copy, sampling afterwards."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from tqdm.auto import tqdm

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
T, STEPS = 50, 900

# %%
t = torch.rand(2048) * 6 + 1
data = torch.stack([t.cos() * t, t.sin() * t], 1) / 5 + 0.02 * torch.randn(2048, 2)
data = data.to(device)


class Diffusion(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        betas = torch.linspace(1e-4, 0.1, T)
        self.register_buffer("betas", betas)
        self.register_buffer("abar", torch.cumprod(1 - betas, 0))
        self.time = nn.Embedding(T, width)
        self.inp, self.mid, self.out = nn.Linear(2, width), nn.Linear(width, width), nn.Linear(width, 2)

    def forward(self, x, step):
        h = F.silu(self.inp(x) + self.time(step))
        return self.out(F.silu(self.mid(h)) + h)

    def loss(self, x0):
        step = torch.randint(0, T, (len(x0),), device=x0.device)
        noise = torch.randn_like(x0)
        a = self.abar[step, None]
        return F.mse_loss(self(a.sqrt() * x0 + (1 - a).sqrt() * noise, step), noise)

    @torch.no_grad()
    def sample(self, n):
        x = torch.randn(n, 2, device=self.betas.device)
        for s in reversed(range(T)):
            eps = self(x, torch.full((n,), s, device=x.device))
            x = (x - self.betas[s] / (1 - self.abar[s]).sqrt() * eps) / (1 - self.betas[s]).sqrt()
            if s:
                x = x + self.betas[s].sqrt() * torch.randn_like(x)
        return x


model = Diffusion().to(device)
ema = copy.deepcopy(model).requires_grad_(False)
opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS)

# %% train
losses = []
pbar = tqdm(range(STEPS))
for step in pbar:
    x0 = data[torch.randint(0, len(data), (256,), device=device)]
    loss = model.loss(x0)
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    with torch.no_grad():
        for p, q in zip(model.parameters(), ema.parameters()):
            q.lerp_(p, 0.02)
    losses.append(loss.item())
    pbar.set_postfix(loss=f"{loss.item():.3f}")

# %%
samples = ema.sample(256)
print(sum(losses[-20:]) / 20 < sum(losses[:20]) / 20, samples.shape, f"{samples.std().item():.3f}")
