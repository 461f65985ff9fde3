"""Nested tqdm bars, a training generator, closures over counters, functools and a live dictionary of curves."""
import functools
from collections import defaultdict

import torch
from torch import nn
from tqdm import tqdm, trange

torch.manual_seed(44)
device = "cuda" if torch.cuda.is_available() else "cpu"

# %%
def counted(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        wrapper.calls += 1
        return function(*args, **kwargs)

    wrapper.calls = 0
    return wrapper


def make_stepper(model, lr):
    optimizer, seen = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9), 0

    @counted
    def step(x, y):
        nonlocal seen
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen += len(x)
        return loss.item(), seen

    return step


def training(step, data, epochs):
    """Yields after every epoch."""
    for epoch in trange(epochs, desc="epochs"):
        total = 0.0
        for x, y in tqdm(data, leave=False, desc=f"epoch {epoch}"):
            value, seen = step(x.to(device), y.to(device))
            total += value
        yield epoch, total / len(data), seen


# %%
x = torch.randn(640, 10)
y = x[:, :3].argmax(1)
data = list(zip(x.split(32), y.split(32)))
models = {w: nn.Sequential(nn.Linear(10, w), nn.Tanh(), nn.Linear(w, 3)).to(device) for w in (8, 32, 64)}
curves = defaultdict(list)

# %% train
for width, model in models.items():
    step = make_stepper(model, lr=0.05)
    for epoch, mean, seen in training(step, data, epochs=10):
        curves[width].append(round(mean, 5))
    print(width, curves[width][-1], seen, step.calls)

# %%
print({k: len(v) for k, v in curves.items()})
