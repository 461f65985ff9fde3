"""Loops, functions, generators and classes as people write them, small."""

from __future__ import annotations

from .matrix_cell import BEGIN, DATA, Cell

LOOPS: dict[str, Cell] = {}

LOOPS["beside"] = Cell(
    """
trainer.callbacks.append(after)
done = trainer.fit_twice(loader, 1)
history, steps = trainer.history, trainer.steps
scores = [evaluate(loader)]
scores.append(evaluate(loader))
best = search(objective, [0.1, -1.0, 0.01])
probe = Probe(model, loader)
probed = [probe.score, probe.accuracy, probe.score * probe.accuracy]
for i, (x, y) in enumerate(sampled):
    say(i, x.sum())
training, took = model.training, type(trainer.epoch.took).__name__
""",
    before=BEGIN
    + DATA
    + """
from tests.snapshot.beside.engine import Probe, Trainer, evaluator, search
from tests.snapshot.beside.meters import Alternating
model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))
opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
loader = DataLoader(Noisy(), batch_size=5, shuffle=True)
trainer, evaluate = Trainer(model, opt), evaluator(model)
sampled = DataLoader(Noisy(), batch_size=5, sampler=Alternating(len(X)))

def after(trainer, loss):
    for i in range(2):
        say(i, trainer.steps, float(loss).hex())

def objective(rate):
    if rate < 0:
        raise ValueError(rate)
    net = nn.Linear(6, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=rate)
    for x, y in loader:
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad(); loss.backward(); optimizer.step()
    return loss.item()
""",
)

LOOPS["nested"] = Cell(
    BEGIN
    + DATA
    + """
model = nn.Sequential(*nn.ModuleList([nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3)]))
opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=10)
loader = DataLoader(TensorDataset(X, Y), batch_size=5, shuffle=True)
history = []
for epoch in range(3):
    model.train()
    for i, (x, y) in enumerate(loader):
        x = x + 0.1 * random.random() + 0.1 * np.random.rand()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if i % 2 == 0:
            say(epoch, i, loss)
    sched.step()
    history.append(sched.get_last_lr())
"""
)

LOOPS["functions"] = Cell(
    before=BEGIN
    + DATA
    + """
import copy, io
from tqdm import tqdm

def train_one_epoch(model, loader, opt, sched, *, clip=1.0):
    model.train()
    total = 0.0
    for x, y in tqdm(loader, file=io.StringIO(), leave=False):
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        opt.step()
        sched.step()
        total += loss.item()
    return total / len(loader)

@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    right = 0
    for x, y in loader:
        assert not torch.is_grad_enabled()
        right += (model(x).argmax(-1) == y).sum().item()
    return right / len(X)

def train(model, epochs=2):
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = DataLoader(Noisy(), batch_size=6, shuffle=True)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.2, total_steps=epochs * len(loader))
    best, best_state = -1, None
    for epoch in range(epochs):
        loss = train_one_epoch(model, loader, opt, sched, clip=0.5)
        accuracy = evaluate(model, loader)
        say(epoch, loss.hex(), accuracy, torch.is_grad_enabled())
        if accuracy > best:
            best, best_state = accuracy, copy.deepcopy(model.state_dict())
    return best, best_state
""",
    text="""
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
best, best_state = train(model)
after = torch.rand(2)
""",
)
LOOPS["control"] = Cell(
    BEGIN
    + """
w = nn.Parameter(torch.randn(4))
opt = torch.optim.Adam([w], lr=0.05)
log, step = [], 0
while step < 12:
    step += 1
    for (a, b), c in zip([(1, 2), (3, 4), (5, 6)], torch.randn(3, 4)):
        if a == 3 and step % 3 == 0:
            continue
        try:
            if step == 5 and a == 5:
                raise ValueError("seen")
            loss = ((w * c).sum() - a * b / 10) ** 2
        except ValueError as error:
            log.append(str(error))
        else:
            opt.zero_grad(); loss.backward(); opt.step()
            for k in range(2):
                log.append((k, loss.item().hex()))
        finally:
            log.append(len([j for j in range(a)]))
        if step == 9:
            break
    else:
        log.append("no break")
say(step, loss)
"""
)

LOOPS["generators"] = Cell(
    before=BEGIN
    + """
def forever(loader):
    while True:
        for batch in loader:
            yield batch

def windows(batches, size):
    for (x,) in batches:
        for i in range(0, x.shape[1] - size, 2):
            yield x[:, i:i + size]
""",
    text="""
net = nn.GRU(5, 5, batch_first=True)
head = nn.Linear(5, 5)
head.weight = net.weight_ih_l0 if net.weight_ih_l0.shape == head.weight.shape else head.weight
opt = torch.optim.RMSprop([*net.parameters(), *head.parameters()], lr=1e-2)
loader = DataLoader(TensorDataset(torch.randn(7, 9, 5)), batch_size=3, shuffle=True)
it = windows(forever(loader), 4)
warm = next(it)
accumulation = 3
for step in range(14):
    x = next(it)
    out, _ = net(x)
    loss = F.mse_loss(head(out), x.roll(1, 1)) / accumulation
    loss.backward()
    if (step + 1) % accumulation == 0:
        opt.step()
        opt.zero_grad()
        say(step, loss)
del it
""",
)

LOOPS["closures"] = Cell(
    BEGIN
    + """
class Trainer:
    def __init__(self, model, lr):
        self.model, self.ema, self.callbacks, self.best = model, {}, [], None
        self.opt = torch.optim.AdamW(model.parameters(), lr=lr)
        self.norms = []
        model[0].register_forward_hook(lambda m, i, o: self.norms.append(o.norm().item().hex()))
        generator = torch.Generator().manual_seed(9)
        self.loader = DataLoader(TensorDataset(torch.randn(9, 4)), batch_size=3, shuffle=True, generator=generator)

    def __update_ema(self, decay=0.9):
        for name, p in self.model.named_parameters():
            old = self.ema.setdefault(name, p.detach().clone())
            old.mul_(decay).add_(p.detach(), alpha=1 - decay)

    def fit(self, epochs):
        seen, worst = [], 0.0
        def note(loss):
            nonlocal worst
            worst = max(worst, loss)
            seen.append(loss.hex())
        self.callbacks += [note, lambda loss: setattr(self, "best", min(self.best or loss, loss))]
        for epoch in range(epochs):
            for (x,) in self.loader:
                self.step(x)
                self.__update_ema()
            worst *= 0.5
        return seen, worst

    def step(self, x):
        for part in x.chunk(2):
            loss = self.model(part).pow(2).mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            for callback in self.callbacks:
                callback(loss.item())

trainer = Trainer(nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 1)), 1e-2)
seen, worst = trainer.fit(2)
ema, norms, best = trainer.ema, trainer.norms, trainer.best
model = trainer.model
"""
)
