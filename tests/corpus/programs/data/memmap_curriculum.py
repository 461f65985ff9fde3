"""Data written to a memory-mapped file by an earlier cell, windows drawn by a custom sampler, a curriculum of lengths."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler, Sampler

torch.manual_seed(90)
device = "cuda" if torch.cuda.is_available() else "cpu"
series = np.memmap("series.bin", dtype=np.float32, mode="w+", shape=(4000,))
series[:] = np.sin(np.arange(4000) / 9) + 0.5 * np.sin(np.arange(4000) / 23)
series.flush()

# %%
class Windows(Dataset):
    def __init__(self, path, length):
        self.data, self.length = np.memmap(path, dtype=np.float32, mode="r"), length

    def __len__(self):
        return len(self.data) - self.length - 1

    def __getitem__(self, i):
        piece = torch.from_numpy(np.array(self.data[i : i + self.length + 1]))
        return piece[:-1, None], piece[1:, None]


class Strided(Sampler):
    """Every stride-th window from a drawn offset."""

    def __init__(self, source, stride):
        self.source, self.stride = source, stride

    def __iter__(self):
        offset = int(torch.randint(0, self.stride, (1,)))
        yield from range(offset, len(self.source), self.stride)

    def __len__(self):
        return len(self.source) // self.stride


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.head = nn.GRU(1, 24, batch_first=True), nn.Linear(24, 1)

    def forward(self, x):
        return self.head(self.gru(x)[0])


# %%
model = Forecaster().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
curriculum = {8: 4, 16: 4, 32: 3}

# %% train
trace = []
for length, epochs in curriculum.items():
    data = Windows("series.bin", length)
    sampler = Strided(data, 9) if length < 32 else RandomSampler(data, num_samples=320)
    for epoch in range(epochs):
        for x, y in DataLoader(data, batch_size=32, sampler=sampler):
            loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
            optimizer.step()
        trace.append((length, epoch, loss.item()))
    print(f"length {length}: {loss.item():.5f}")

# %%
print(len(trace), trace[-1][2] < trace[0][2])
