"""A convolutional denoising autoencoder in a class with its own fit() and callbacks."""
import logging

import torch
from torch import nn
from torch.utils.data import DataLoader

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", force=True)
log = logging.getLogger("autoencoder")
torch.manual_seed(17)
device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")

# %%
class Callback:
    def on_epoch_end(self, model, epoch, logs): ...


class History(Callback):
    def __init__(self):
        self.rows = []

    def on_epoch_end(self, model, epoch, logs):
        self.rows.append({"epoch": epoch, **logs})


class Stop(Callback):
    def __init__(self, patience, key="val"):
        self.patience, self.key, self.best, self.wait = patience, key, float("inf"), 0

    def on_epoch_end(self, model, epoch, logs):
        self.wait = 0 if logs[self.key] < self.best else self.wait + 1
        self.best = min(self.best, logs[self.key])
        model.stop_training = self.wait >= self.patience


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.ELU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ELU())
        self.decoder = nn.Sequential(nn.ConvTranspose2d(16, 8, 2, 2), nn.ELU(), nn.ConvTranspose2d(8, 1, 2, 2))
        self.stop_training = False

    def forward(self, x):
        return self.decoder(self.encoder(x))

    def fit(self, loader, val, epochs, callbacks=(), lr=2e-3):
        optimizer = torch.optim.Adam(self.parameters(), lr=lr)
        for epoch in range(epochs):
            total = 0.0
            for x in loader:
                x = x.to(next(self.parameters()).device)
                loss = nn.functional.mse_loss(self(x + 0.3 * torch.randn_like(x)), x)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item() / len(loader)
            with torch.no_grad():
                logs = {"loss": total, "val": nn.functional.mse_loss(self(val), val).item()}
            for callback in callbacks:
                callback.on_epoch_end(self, epoch, logs)
            if self.stop_training:
                log.info("stopped at %d", epoch)
                break
        return self


# %%
grid = torch.linspace(0, 6, 28)
waves = torch.stack([torch.sin(grid * f)[None] * torch.cos(grid * g)[:, None] for f, g in torch.rand(320, 2) * 3])[:, None]
loader = DataLoader(waves[:256], 32, shuffle=True)
history, stop = History(), Stop(patience=3)
model = AutoEncoder().to(device)

# %% train
model.fit(loader, waves[256:].to(device), epochs=20, callbacks=[history, stop])

# %%
print(len(history.rows), f"{stop.best:.4f}", history.rows[-1]["epoch"])
