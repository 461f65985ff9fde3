"""An IterableDataset shared between two workers, worker seeds, pinned memory, a prefetching wrapper."""
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

torch.manual_seed(70)
np.random.seed(70)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

# %%
class Stream(IterableDataset):
    def __init__(self, length):
        self.length = length

    def __iter__(self):
        info = get_worker_info()
        share, number = (info.num_workers, info.id) if info else (1, 0)
        rng = np.random.default_rng(1000 + number)
        for _ in range(number, self.length, share):
            x = rng.normal(size=16).astype(np.float32)
            yield x, np.float32(np.sin(x[:4]).sum())


def seed_worker(worker_id):
    worker_seed = torch.initial_seed() % 2**32
    np.random.seed(worker_seed)
    random.seed(worker_seed)


class Prefetch:
    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        ahead = None
        for batch in self.loader:
            batch = [t.to(device, non_blocking=True) for t in batch]
            if ahead is not None:
                yield ahead
            ahead = batch
        yield ahead


g = torch.Generator()
g.manual_seed(0)
loader = DataLoader(Stream(1600), batch_size=32, num_workers=2, worker_init_fn=seed_worker, generator=g, pin_memory=True)
model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 1)).to(device)
opt = torch.optim.RAdam(model.parameters(), lr=5e-3)

# %% train
steps, averages = 0, []
for epoch in range(6):
    losses = []
    for x, y in Prefetch(loader):
        loss = nn.functional.smooth_l1_loss(model(x).squeeze(1), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.detach())
        steps += 1
    averages.append(torch.stack(losses).mean().item())
    print(f"epoch {epoch}: {averages[-1]:.4f}")

# %%
print(steps, averages[-1] < averages[0])
