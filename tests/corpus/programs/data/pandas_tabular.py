"""Tabular data: a DataFrame with categories, embeddings for them, a Dataset over numpy, metrics back in pandas."""
import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

np.random.seed(80)
torch.manual_seed(80)
device = "cuda" if torch.cuda.is_available() else "cpu"

# %%
n = 1200
df = pd.DataFrame(
    {
        "area": np.random.gamma(4, 25, n),
        "rooms": np.random.randint(1, 7, n),
        "town": np.random.choice(["Aix", "Bern", "Cork", "Delft"], n),
        "kind": np.random.choice(["flat", "house"], n),
        "built": pd.to_datetime("1950-01-01") + pd.to_timedelta(np.random.randint(0, 25000, n), unit="D"),
    }
)
factor = df["town"].map({"Aix": 1.0, "Bern": 1.8, "Cork": 0.9, "Delft": 1.3})
df["price"] = df["area"] * factor * (1 + 0.2 * (df["kind"] == "house")) + 4 * df["rooms"] + np.random.normal(0, 5, n)
df["age"] = 2020 - df["built"].dt.year
categories = {c: df[c].astype("category") for c in ("town", "kind")}
numeric = df[["area", "rooms", "age"]]
mean, std = numeric.mean(), numeric.std()


class Table(Dataset):
    def __init__(self, rows):
        self.num = ((numeric.iloc[rows] - mean) / std).to_numpy(dtype=np.float32)
        self.cat = np.stack([c.cat.codes.to_numpy()[rows] for c in categories.values()], 1).astype(np.int64)
        self.y = (df["price"].to_numpy()[rows] / 100).astype(np.float32)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.num[i], self.cat[i], self.y[i]


class Tabular(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeds = nn.ModuleList(nn.Embedding(len(c.cat.categories), 4) for c in categories.values())
        self.net = nn.Sequential(nn.BatchNorm1d(11), nn.Linear(11, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, num, cat):
        return self.net(torch.cat([num, *[e(cat[:, i]) for i, e in enumerate(self.embeds)]], 1)).squeeze(1)


rows = np.random.permutation(n)
train_dl, test_ds = DataLoader(Table(rows[:1000]), 50, shuffle=True), Table(rows[1000:])
model = Tabular().to(device)
optimizer = torch.optim.Adam(model.parameters(), 0.01, weight_decay=1e-5)

# %% train
history = []
for epoch in range(20):
    model.train()
    for num, cat, y in train_dl:
        loss = nn.functional.mse_loss(model(num.to(device), cat.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        guess = model(torch.tensor(test_ds.num).to(device), torch.tensor(test_ds.cat).to(device)).cpu().numpy()
    history.append({"epoch": epoch, "rmse": float(np.sqrt(np.mean((guess - test_ds.y) ** 2)))})
    if epoch % 5 == 4:
        print(f"{epoch}: rmse {history[-1]['rmse']:.4f}")
frame = pd.DataFrame(history).set_index("epoch")

# %%
print(frame["rmse"].idxmin() > 3, frame.shape)
