# needs: wandb
"""wandb without a network: a run with a config, watched losses, a summary."""
import os

os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", WANDB_DIR=".")
import torch
import wandb
from torch import nn

torch.manual_seed(18)
device = "cuda" if torch.cuda.is_available() else "cpu"

# %%
config = dict(epochs=15, batch=64, lr=3e-3, hidden=64)
x = torch.rand(768, 8) * 2 - 1
y = (x[:, :1] * x[:, 1:2] + x[:, 2:3] ** 2).contiguous()


def make(config):
    model = nn.Sequential(nn.Linear(8, config["hidden"]), nn.Softplus(), nn.Linear(config["hidden"], 1)).to(device)
    return model, nn.L1Loss(), torch.optim.Adam(model.parameters(), lr=config["lr"])


def train_batch(model, optimizer, criterion, xb, yb):
    loss = criterion(model(xb.to(device)), yb.to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


# %%
model, criterion, optimizer = make(config)
examples = 0

# %% train
with wandb.init(project="corpus", config=config) as run:
    for epoch in range(run.config.epochs):
        for batch_ct, idx in enumerate(torch.randperm(len(x)).split(run.config.batch)):
            loss = train_batch(model, optimizer, criterion, x[idx], y[idx])
            examples += len(idx)
            if batch_ct % 4 == 0:
                wandb.log({"epoch": epoch, "loss": loss.item()}, step=examples)
        if epoch % 5 == 4:
            print(f"Loss after {examples:05d} examples: {loss.item():.4f}")
    run.summary["final"] = loss.item()
del run

# %%
print(examples, loss.item() < 0.5)
