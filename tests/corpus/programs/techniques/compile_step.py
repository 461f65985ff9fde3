"""A compiled model, a step function with set_float32_matmul_precision, and timing by time.perf_counter."""
import time

import torch
import torch.nn as nn

torch.manual_seed(9)
torch.set_float32_matmul_precision("high")
device = "cuda" if torch.cuda.is_available() else "cpu"

# %%
class MLP(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in zip(sizes, sizes[1:]))

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.nn.functional.gelu(layer(x))
        return self.layers[-1](x)


model = MLP(64, 128, 128, 1).to(device)
compiled = torch.compile(model, backend="eager")
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
w = torch.randn(64, 1, device=device)


def train_step(x, y):
    opt.zero_grad(set_to_none=True)
    loss = torch.nn.functional.huber_loss(compiled(x), y)
    loss.backward()
    opt.step()
    return loss


# %% train
N_ITERS, train_times, losses = 400, [], []
for i in range(N_ITERS):
    x = torch.randn(128, 64, device=device)
    began = time.perf_counter()
    losses.append(train_step(x, torch.tanh(x @ w)).item())
    train_times.append(time.perf_counter() - began)
    if i % 100 == 0:
        print(f"train step {i}: {losses[-1]:.4f}")

# %%
print(len(train_times), losses[-1] < losses[0], isinstance(compiled, nn.Module))
