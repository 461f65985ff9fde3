"""torch.func: functional_call, grad and vmap; meta-learning of sine waves over stacked tasks."""
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

torch.manual_seed(33)
device = "cuda" if torch.cuda.is_available() else "cpu"
TASKS, K, INNER_LR = 8, 10, 0.05

# %%
net = nn.Sequential(nn.Linear(1, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 1)).to(device)
params = {k: v.detach().clone().requires_grad_() for k, v in net.named_parameters()}
optimizer = torch.optim.Adam(params.values(), lr=3e-3)


def mse(params, x, y):
    return nn.functional.mse_loss(functional_call(net, params, (x,)), y)


def adapted_loss(params, x1, y1, x2, y2):
    g = grad(mse)(params, x1, y1)
    return mse({k: v - INNER_LR * g[k] for k, v in params.items()}, x2, y2)


def tasks(n):
    amplitude, phase = torch.rand(n, 1, 1) * 4 + 1, torch.rand(n, 1, 1) * 3.14
    x = torch.rand(n, 2 * K, 1) * 10 - 5
    y = amplitude * torch.sin(x + phase)
    return [t.to(device) for t in (x[:, :K], y[:, :K], x[:, K:], y[:, K:])]


meta_loss = vmap(adapted_loss, in_dims=(None, 0, 0, 0, 0))

# %% train
trace = []
for it in range(250):
    loss = meta_loss(params, *tasks(TASKS)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    trace.append(loss.item())
    if (it + 1) % 50 == 0:
        print(f"iteration {it + 1}: {sum(trace[-50:]) / 50:.4f}")

# %%
print(sum(trace[-50:]) < sum(trace[:50]))
