# needs: omegaconf
"""An experiment by OmegaConf: interpolation, instantiation by dotted name, a sweep over seeds."""
import importlib
import logging

import torch
from omegaconf import OmegaConf

log = logging.getLogger("experiment")
cfg = OmegaConf.create(
    """
seed: 0
data: {n: 512, dim: 16}
model: {_target_: torch.nn.Sequential, widths: ["${data.dim}", 48, 1]}
optim: {_target_: torch.optim.AdamW, lr: 0.005, weight_decay: 0.01}
train: {epochs: 12, batch: 32, log_every: 6}
"""
)
cfg.merge_with_dotlist(["train.epochs=14"])

# %%
def locate(name):
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def build(cfg):
    layers = []
    for i, o in zip(cfg.model.widths, cfg.model.widths[1:]):
        layers += [torch.nn.Linear(int(i), int(o)), torch.nn.ELU()]
    model = locate(cfg.model._target_)(*layers[:-1])
    kwargs = {k: v for k, v in cfg.optim.items() if not k.startswith("_")}
    return model, locate(cfg.optim._target_)(model.parameters(), **kwargs)


def run(cfg, device):
    torch.manual_seed(cfg.seed)
    x = torch.randn(cfg.data.n, cfg.data.dim, device=device)
    y = x.abs().sum(1, keepdim=True)
    model, optimizer = build(cfg)
    model.to(device)
    for epoch in range(cfg.train.epochs):
        for idx in torch.randperm(cfg.data.n, device=device).split(cfg.train.batch):
            loss = torch.nn.functional.l1_loss(model(x[idx]), y[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if (epoch + 1) % cfg.train.log_every == 0:
            log.info("epoch %d", epoch)
            print(f"seed {cfg.seed} epoch {epoch + 1}: {loss.item():.4f}")
    return loss.item()


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

# %% train
scores = {}
for seed in range(3):
    one = OmegaConf.merge(cfg, {"seed": seed})
    scores[seed] = run(one, device)

# %%
print(OmegaConf.to_container(cfg.train), min(scores, key=scores.get) in scores)
