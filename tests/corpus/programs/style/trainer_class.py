"""A Trainer class in a cell: a registry of models and losses by decorator, a dataclass config, callbacks by name, run()."""
from collections import defaultdict
from dataclasses import asdict, dataclass, field

import torch
from torch import nn

MODELS, LOSSES = {}, {"mse": nn.MSELoss, "huber": nn.HuberLoss}


def register(name):
    def wrap(cls):
        MODELS[name] = cls
        return cls

    return wrap


@dataclass
class Config:
    model: str = "gated"
    loss: str = "huber"
    max_iters: int = 500
    batch_size: int = 64
    betas: tuple = (0.9, 0.95)
    sizes: list = field(default_factory=lambda: [12, 64, 1])


# %%
@register("gated")
class Gated(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.a, self.b, self.out = nn.Linear(*sizes[:2]), nn.Linear(*sizes[:2]), nn.Linear(*sizes[1:])

    def forward(self, x):
        return self.out(self.a(x) * torch.sigmoid(self.b(x)))


class Trainer:
    def __init__(self, config, dataset):
        self.config, self.dataset, self.callbacks, self.iter_num = config, dataset, defaultdict(list), 0
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = MODELS[config.model](config.sizes).to(self.device)
        self.criterion = LOSSES[config.loss]()

    def add_callback(self, onevent, callback):
        self.callbacks[onevent].append(callback)

    def trigger(self, onevent):
        for callback in self.callbacks.get(onevent, []):
            callback(self)

    def run(self):
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3, betas=self.config.betas)
        loader = torch.utils.data.DataLoader(self.dataset, self.config.batch_size, shuffle=True)
        data_iter = iter(loader)
        while True:
            try:
                batch = next(data_iter)
            except StopIteration:
                data_iter = iter(loader)
                batch = next(data_iter)
            x, y = [t.to(self.device) for t in batch]
            self.loss = self.criterion(self.model(x), y)
            self.model.zero_grad(set_to_none=True)
            self.loss.backward()
            self.optimizer.step()
            self.trigger("on_batch_end")
            self.iter_num += 1
            if self.iter_num >= self.config.max_iters:
                break


# %%
torch.manual_seed(3407)
x = torch.randn(512, 12)
trainer = Trainer(Config(), torch.utils.data.TensorDataset(x, x[:, :1] * x[:, 1:2]))
losses = []


def batch_end_callback(trainer):
    losses.append(trainer.loss.item())
    if trainer.iter_num % 100 == 0:
        print(f"iter {trainer.iter_num}: train loss {trainer.loss.item():.5f}")


trainer.add_callback("on_batch_end", batch_end_callback)

# %% train
trainer.run()

# %%
print(len(losses), asdict(trainer.config)["model"])
