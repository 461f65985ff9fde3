"""Mixup in a collate function, a weighted sampler, soft labels and a confusion matrix."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler

rng = np.random.default_rng(11)
torch.manual_seed(11)
device = "cuda" if torch.cuda.is_available() else "cpu"
CLASSES = ["cat", "dog", "frog"]

# %%
class Shapes(Dataset):
    def __init__(self, n, transform=None):
        self.y = rng.choice(3, n, p=[0.7, 0.2, 0.1])
        self.x = rng.normal(self.y[:, None, None, None] * 0.5, 1.0, (n, 3, 16, 16)).astype("float32")
        self.transform = transform

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        x = self.x[i]
        return (self.transform(x) if self.transform else x), int(self.y[i])


def flip(x):
    return x[:, :, ::-1].copy() if rng.random() < 0.5 else x


def mixup(batch, alpha=0.3):
    x = torch.tensor(np.stack([b[0] for b in batch]))
    y = nn.functional.one_hot(torch.tensor([b[1] for b in batch]), 3).float()
    lam = float(rng.beta(alpha, alpha))
    order = torch.randperm(len(x))
    return lam * x + (1 - lam) * x[order], lam * y + (1 - lam) * y[order]


data = Shapes(400, flip)
weights = 1.0 / np.bincount(data.y)[data.y]
sampler = WeightedRandomSampler(torch.as_tensor(weights), num_samples=400, generator=torch.Generator().manual_seed(2))
loader = DataLoader(data, batch_size=32, sampler=sampler, collate_fn=mixup)

# %%
model = nn.Sequential(
    nn.Conv2d(3, 16, 3), nn.GELU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.GELU(), nn.Flatten(), nn.LazyLinear(3)
).to(device)
model(torch.zeros(1, 3, 16, 16, device=device))
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)

# %% train
confusion = np.zeros((3, 3), dtype=int)
running = None
for epoch in range(24):
    for xb, yb in loader:
        xb, yb = xb.to(device), yb.to(device)
        loss = nn.functional.cross_entropy(model(xb), yb)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        running = loss.item() if running is None else 0.9 * running + 0.1 * loss.item()
    if epoch % 8 == 7:
        print(f"{epoch}: {running:.4f}")
with torch.no_grad():
    guessed = model(torch.from_numpy(data.x).to(device)).argmax(1).cpu().numpy()
np.add.at(confusion, (data.y, guessed), 1)

# %%
for name, row in zip(CLASSES, confusion):
    print(f"{name:>5}", *row)
