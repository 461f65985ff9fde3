"""A Learner with __call__, properties, super() chains, contextmanager phases, exceptions that cancel a batch."""
from contextlib import contextmanager

import torch
from torch import nn

torch.manual_seed(66)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class CancelBatch(Exception):
    pass


# %%
class Learner:
    def __init__(self, model, dls, loss_func, cbs=(), lr=0.05):
        self.model, self.dls, self.loss_func, self.cbs, self.lr = model.to(device), dls, loss_func, list(cbs), lr

    def __call__(self, name):
        for cb in sorted(self.cbs, key=lambda c: c.order):
            getattr(cb, name, lambda learn: None)(self)

    @property
    def training(self):
        return self.model.training

    @contextmanager
    def phase(self, name):
        self(f"before_{name}")
        try:
            yield
            self(f"after_{name}")
        except CancelBatch:
            self("cancelled")

    def one_batch(self):
        with self.phase("batch"):
            self.preds = self.model(self.x.to(device))
            self.loss = self.loss_func(self.preds, self.y.to(device))
            if self.training:
                self.loss.backward()
                self("after_backward")
                self.opt.step()
                self.opt.zero_grad()

    def fit(self, n_epochs):
        self.opt = torch.optim.SGD(self.model.parameters(), self.lr, momentum=0.9)
        for self.epoch in range(n_epochs):
            for train in (True, False):
                self.model.train(train)
                with self.phase("epoch"), torch.set_grad_enabled(train):
                    for self.iter, (self.x, self.y) in enumerate(self.dls[0 if train else 1]):
                        self.one_batch()


class Callback:
    order = 0


class Metric(Callback):
    def before_epoch(self, learn):
        self.total = self.n = 0

    def after_batch(self, learn):
        self.total += (learn.preds.argmax(1).cpu() == learn.y).sum().item()
        self.n += len(learn.y)

    def after_epoch(self, learn):
        self.value = self.total / self.n


class Printed(Metric):
    order = 1

    def after_epoch(self, learn):
        super().after_epoch(learn)
        if not learn.training and learn.epoch % 4 == 3:
            print(f"{learn.epoch} {self.value:.3f} {self.skipped}")

    skipped = 0

    def after_backward(self, learn):
        if learn.loss > 3:
            self.skipped += 1
            raise CancelBatch


# %%
x = torch.randn(768, 20)
y = x[:, :5].argmax(1)
dls = [list(zip(x[:640].split(32), y[:640].split(32))), list(zip(x[640:].split(64), y[640:].split(64)))]
net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 5))
learn = Learner(net, dls, nn.functional.cross_entropy, [Printed()])

# %% train
learn.fit(16)

# %%
print(learn.cbs[0].value > 0.6)
