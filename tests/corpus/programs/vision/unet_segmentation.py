"""A U-Net that finds drawn discs, with a Dice score and ReduceLROnPlateau."""
import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, random_split

SEED = 3
np.random.seed(SEED)
torch.manual_seed(SEED)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

# %%
class Discs(Dataset):
    def __init__(self, count, size=32):
        yy, xx = np.mgrid[:size, :size]
        centres = np.random.randint(8, size - 8, (count, 2))
        self.masks = np.stack([((yy - y) ** 2 + (xx - x) ** 2 < 36) for y, x in centres]).astype(np.float32)
        self.images = self.masks + 0.5 * np.random.randn(count, size, size).astype(np.float32)

    def __len__(self):
        return len(self.masks)

    def __getitem__(self, i):
        return torch.from_numpy(self.images[i])[None], torch.from_numpy(self.masks[i])[None]


train_set, val_set = random_split(Discs(120), [96, 24], generator=torch.Generator().manual_seed(SEED))
train_dl, val_dl = DataLoader(train_set, 8, shuffle=True, drop_last=True), DataLoader(val_set, 8)

# %%
class DoubleConv(nn.Sequential):
    def __init__(self, i, o):
        super().__init__(
            nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(True),
            nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(True),
        )


class UNet(nn.Module):
    def __init__(self, widths=(8, 16, 32)):
        super().__init__()
        self.downs, self.ups = nn.ModuleList(), nn.ModuleList()
        last = 1
        for w in widths:
            self.downs.append(DoubleConv(last, w))
            last = w
        for w in reversed(widths[:-1]):
            self.ups.append(nn.ModuleDict({"up": nn.ConvTranspose2d(last, w, 2, 2), "conv": DoubleConv(2 * w, w)}))
            last = w
        self.head = nn.Conv2d(last, 1, 1)

    def forward(self, x):
        skips = []
        for i, down in enumerate(self.downs):
            x = down(x)
            if i < len(self.downs) - 1:
                skips.append(x)
                x = nn.functional.max_pool2d(x, 2)
        for up in self.ups:
            x = up["conv"](torch.cat([skips.pop(), up["up"](x)], dim=1))
        return self.head(x)


model = UNet().to(DEVICE)
loss_fn = nn.BCEWithLogitsLoss()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=1)
history = {"train": [], "dice": []}

# %% train
for epoch in range(8):
    model.train()
    losses = []
    for x, y in train_dl:
        x, y = x.to(DEVICE), y.to(DEVICE)
        loss = loss_fn(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    model.eval()
    with torch.inference_mode():
        p = torch.cat([(model(x.to(DEVICE)) > 0).float().cpu() for x, _ in val_dl])
    t = torch.cat([y for _, y in val_dl])
    dice = (2 * (p * t).sum() / (p.sum() + t.sum() + 1e-6)).item()
    sched.step(1 - dice)
    history["train"].append(np.mean(losses))
    history["dice"].append(dice)
    print(f"{epoch}: loss {history['train'][-1]:.4f} dice {dice:.3f} lr {opt.param_groups[0]['lr']:.1e}")

# %%
plt.plot(history["train"])
plt.plot(history["dice"])
plt.savefig("history.png")
plt.close()
