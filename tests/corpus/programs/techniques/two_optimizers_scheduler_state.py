"""Embeddings by SparseAdam and the rest by Adam; full checkpoints every epoch; training goes on from one it loads."""
import os
import random

import numpy as np
import torch
from torch import nn

def set_seed(seed):
    os.environ["PYTHONHASHSEED"] = str(seed)
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
    torch.use_deterministic_algorithms(True, warn_only=True)


set_seed(77)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

# %%
users, items = 120, 80
true = np.random.randn(users, 4) @ np.random.randn(4, items)
rows, cols = np.nonzero(np.random.rand(users, items) < 0.3)
ratings = torch.tensor(true[rows, cols], dtype=torch.float32)
u, v = torch.tensor(rows), torch.tensor(cols)


class Factors(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.user, self.item = nn.Embedding(users, dim, sparse=True), nn.Embedding(items, dim, sparse=True)
        self.mix = nn.Sequential(nn.Linear(2 * dim, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, u, v):
        a, b = self.user(u), self.item(v)
        return (a * b).sum(1) + self.mix(torch.cat([a, b], 1)).squeeze(1)


model = Factors().to(device)
sparse = torch.optim.SparseAdam([*model.user.parameters(), *model.item.parameters()], lr=0.01)
dense = torch.optim.Adam(model.mix.parameters(), lr=0.003)
schedulers = [torch.optim.lr_scheduler.StepLR(o, 5, 0.7) for o in (sparse, dense)]


def save(path, epoch, **more):
    state = {"model": model.state_dict(), "sparse": sparse.state_dict(), "dense": dense.state_dict(), "epoch": epoch, **more}
    torch.save(state, path + ".tmp")
    os.replace(path + ".tmp", path)


# %% train
start = 0
if os.path.exists("last.ckpt"):
    state = torch.load("last.ckpt", map_location=device)
    model.load_state_dict(state["model"])
    start = state["epoch"] + 1
for epoch in range(start, 20):
    order, total = np.random.permutation(len(ratings)), 0.0
    for ids in np.array_split(order, 24):
        loss = nn.functional.mse_loss(model(u[ids].to(device), v[ids].to(device)), ratings[ids].to(device))
        sparse.zero_grad(), dense.zero_grad()
        loss.backward()
        sparse.step(), dense.step()
        total += loss.item() * len(ids)
    for s in schedulers:
        s.step()
    save("last.ckpt", epoch, loss=total / len(ratings))
    if epoch % 5 == 4:
        print(f"{epoch:3d} rmse {(total / len(ratings)) ** 0.5:.3f}")

# %%
print(torch.load("last.ckpt", map_location="cpu")["epoch"], sorted(f for f in os.listdir() if f.endswith("ckpt")))
