"""Triplets of points: a custom Dataset that draws with `random`, TripletMarginLoss, and a hard-negative count."""
import random

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

random.seed(7)
torch.manual_seed(7)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

# %%
class Triplets(Dataset):
    def __init__(self, classes=6, per_class=20, dim=64):
        centres = torch.randn(classes, dim)
        self.items = {c: centres[c] + 0.8 * torch.randn(per_class, dim) for c in range(classes)}
        self.classes = list(self.items)

    def __len__(self):
        return 512

    def __getitem__(self, index):
        positive, negative = random.sample(self.classes, 2)
        a, p = random.sample(range(20), 2)
        return self.items[positive][a], self.items[positive][p], random.choice(self.items[negative])


class Embed(nn.Module):
    def __init__(self, dim=64, out=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, 128), nn.PReLU(), nn.LayerNorm(128), nn.Linear(128, out))

    def forward(self, *xs):
        return tuple(nn.functional.normalize(self.net(x), dim=-1) for x in xs)


# %%
dataset = Triplets()
loader = DataLoader(dataset, batch_size=32)
net = Embed().to(device)
criterion = nn.TripletMarginLoss(margin=0.5)
optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-3)
counter, loss_history, iteration_number = [], [], 0

# %% train
for epoch in range(0, 45):
    hard = 0
    for i, (anchor, positive, negative) in enumerate(loader, 0):
        anchor, positive, negative = anchor.to(device), positive.to(device), negative.to(device)
        optimizer.zero_grad()
        a, p, n = net(anchor, positive, negative)
        loss = criterion(a, p, n)
        loss.backward()
        optimizer.step()
        hard += int(((a - n).norm(dim=1) < (a - p).norm(dim=1)).sum())
        if i % 8 == 0:
            iteration_number += 8
            counter.append(iteration_number)
            loss_history.append(loss.item())
    if epoch % 5 == 4:
        print(f"Epoch {epoch}: loss {loss.item():.4f}, {hard} hard triplets")

# %%
print(len(counter), min(loss_history))
