"""Trainings as people write them, small. Every one says at its end what it came to, to the last bit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    text: str
    before: str = ""  # an earlier cell
    slow_to_start: bool = False  # seconds for each process
    needs: tuple[str, ...] = ()  # libraries; see tests/libraries.py
    loads: tuple[str, ...] = ()  # modules that an earlier cell imported
    clock: str = ""  # lines of output with this word tell of the time
    puts_off: bool = False  # at some of its points it can be saved only a little later


BEGIN = """
import random, math, numpy as np, torch
import torch.nn as nn, torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset
random.seed(1); np.random.seed(2); torch.manual_seed(3)

def say(*things):
    print(*(thing.item().hex() if isinstance(thing, torch.Tensor) else thing for thing in things))
"""

DATA = """
X, Y = torch.randn(22, 6), torch.randint(0, 3, (22,))

class Noisy(Dataset):
    def __len__(self):
        return len(X)
    def __getitem__(self, i):
        x = X[i] + 0.01 * torch.randn(6) + random.random() * 0.01 + float(np.random.rand()) * 0.01
        return x, Y[i]
"""

CELLS: dict[str, Cell] = {}

CELLS["beside"] = Cell(
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

CELLS["nested"] = Cell(
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

CELLS["functions"] = Cell(
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
CELLS["control"] = Cell(
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

CELLS["generators"] = Cell(
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

CELLS["closures"] = Cell(
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

CELLS["files"] = Cell(
    BEGIN
    + DATA
    + """
from tqdm import tqdm
import csv, os
model = nn.Linear(6, 3)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(Noisy(), batch_size=8, shuffle=True)
with open("log.txt", "w") as log, open("log.csv", "w", newline="") as table, torch.enable_grad():
    rows = csv.writer(table)
    for epoch in range(2):
        with tqdm(total=len(loader), disable=True) as bar:
            for x, y in loader:
                with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
                    loss = F.cross_entropy(model(x), y)
                opt.zero_grad(); loss.backward(); opt.step()
                log.write(f"{epoch} {loss.item().hex()}\\n")
                rows.writerow([epoch, loss.item()])
                bar.update(1)
        with torch.no_grad():
            for x, y in loader:
                log.write(f"{model(x).sum().item().hex()} {torch.is_grad_enabled()}\\n")
        log.flush()
written = open("log.txt").read(), open("log.csv").read()
"""
)

CELLS["managers"] = Cell(
    BEGIN
    + """
from contextlib import contextmanager, ExitStack
from torch.nn.attention import sdpa_kernel, SDPBackend

@contextmanager
def frozen(part):
    was = [p.requires_grad for p in part.parameters()]
    for p in part.parameters():
        p.requires_grad_(False)
    try:
        with counted("inner") as n:
            yield n
    finally:
        for p, flag in zip(part.parameters(), was):
            p.requires_grad_(flag)
        print("thawed")

@contextmanager
def counted(name):
    counts.append(name)
    yield counts
    counts.append("end of " + name)

class Timer:
    def __enter__(self):
        self.ticks = 0
        return self
    def __exit__(self, *error):
        print("ticks", self.ticks)

counts = []
model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    with Timer() as timer, frozen(model[0]) as c:
        for i in range(3):
            q = model(torch.randn(2, 3, 4))
            with sdpa_kernel(SDPBackend.MATH):
                for _ in range(1):
                    loss = F.scaled_dot_product_attention(q, q, q).pow(2).mean()
            opt.zero_grad(); loss.backward(); opt.step()
            timer.ticks += 1
            say(i, loss, len(c), [p.requires_grad for p in model.parameters()])
    with ExitStack() as stack, torch.set_grad_enabled(epoch == 1):
        stack.enter_context(counted("stacked"))
        for i in range(2):
            say(model(torch.ones(4)).sum(), torch.is_grad_enabled())
            stack.callback(print, "left", i)
    with torch.inference_mode():
        for i in range(2):
            say(torch.is_inference_mode_enabled(), float(model(torch.ones(4)).sum()).hex())
""",
    puts_off=True,
)

CELLS["expressions"] = Cell(
    BEGIN
    + """
w = torch.randn(3, requires_grad=True)
opt = torch.optim.SGD([w], lr=0.01)

def steps(n, scale=1.0, *rest, **named):
    total = 0.0
    for i in range(n):
        loss = (w * scale).pow(2).sum() + random.random()
        opt.zero_grad(); loss.backward(); opt.step()
        total += loss.item()
    return total

log, k = [], 0
for epoch in range(2):
    log.append(steps(2) / 2)
    log.append(max(steps(1), steps(2, 0.5)))
    log.append(steps(1) if epoch else steps(2) + 1)
    log.append(epoch and steps(1) or steps(1, 2.0))
    log.append(f"{steps(1):.3f} {epoch}")
    log.append({"a": steps(1), "b": [steps(1), (steps(1), k)]})
    k += steps(1)
    if steps(1) > 5:
        log.append("large")
    elif steps(1) > 1:
        log.append("middling")
    a, b = steps(1), k
    log.append(steps(*[1, 2.0], z=steps(1)))
    log.append([steps(1) for _ in range(2)])
    log.append(0 < steps(1) < steps(2, 3.0))
say(len(log), k.hex())
"""
)

CELLS["workers"] = Cell(
    BEGIN
    + DATA
    + """
def init(worker):
    np.random.seed(worker)

model = nn.Linear(6, 3)
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(Noisy(), batch_size=4, shuffle=True, num_workers=2, worker_init_fn=init)
kept = DataLoader(Noisy(), batch_size=8, num_workers=1, persistent_workers=True)
for epoch in range(2):
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad(); loss.backward(); opt.step()
        say(loss)
    for x, y in kept:
        say(x.sum())
""",
    slow_to_start=True,
)

CELLS["nanogpt"] = Cell(
    BEGIN
    + """
from collections import deque
V, T, C = 17, 8, 16

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln, self.qkv, self.out = nn.LayerNorm(C), nn.Linear(C, 3 * C, bias=False), nn.Linear(C, C)
    def forward(self, x):
        q, k, v = self.qkv(self.ln(x)).view(*x.shape[:2], 3, 2, C // 2).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.1 if self.training else 0.0)
        return x + self.out(y.transpose(1, 2).reshape(x.shape))

class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.blocks = nn.Embedding(V, C), nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(C, V, bias=False)
        self.head.weight = self.emb.weight
    def forward(self, i, t):
        x = self.emb(i)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(x).view(-1, V), t.view(-1))

data = torch.randint(0, V, (300,))
def get_batch(split):
    at = torch.randint(len(data) - T - 1, (4,))
    return torch.stack([data[i:i + T] for i in at]), torch.stack([data[i + 1:i + T + 1] for i in at])

@torch.no_grad()
def estimate_loss():
    out = {}
    model.eval()
    for split in ["train", "val"]:
        losses = torch.zeros(2)
        for k in range(2):
            losses[k] = model(*get_batch(split)).item()
        out[split] = losses.mean()
    model.train()
    return out

model = GPT()
decay = [p for p in model.parameters() if p.dim() > 1]
rest = [p for p in model.parameters() if p.dim() <= 1]
opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=1e-3)
scaler = torch.amp.GradScaler("cpu", enabled=True)
ema = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
recent = deque(maxlen=3)
iter_num = 0
X, Y = get_batch("train")
while True:
    for group in opt.param_groups:
        group["lr"] = 1e-3 * (1 + math.cos(iter_num))
    if iter_num % 3 == 0:
        losses = estimate_loss()
        say(iter_num, losses["train"], losses["val"])
    for micro in range(2):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(X, Y) / 2
        X, Y = get_batch("train")
        scaler.scale(loss).backward()
    scaler.unscale_(opt)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(opt)
    scaler.update()
    opt.zero_grad(set_to_none=True)
    ema.update_parameters(model)
    recent.append(loss.item())
    iter_num += 1
    if iter_num > 6:
        break
"""
)

CELLS["graphs"] = Cell(
    BEGIN
    + """
model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
opt = torch.optim.SGD(model.parameters(), lr=0.05)
row, turned, column = model[0].weight[0], model[0].weight.t(), model[1].weight[:, 1]
inner, last = turned[1], list(model[1].weight)[-1]
line, teacher = nn.Linear(3, 1), nn.Sequential(nn.Linear(3, 2), nn.Tanh())
total, again, rows, judged = 0, [], [], torch.zeros(())

def tried(n):
    for j in range(n):
        out = line(torch.randn(2, 3))
        print(out.mean().item().hex())
    return j

for i in range(5):
    say(tried(2), judged.item())
    if i:
        print(loss, total, last)
        try:
            loss.backward()
        except RuntimeError as error:
            again.append("second time" in str(error))
    loss = model(torch.randn(5, 3)).pow(2).mean() + row.pow(2).sum() + (turned[0] * inner).sum() + column.prod()
    opt.zero_grad(); loss.backward(); opt.step()
    total += loss
    rows.append(last.tolist())
    say(i, loss, total, row.grad_fn is None, total.is_leaf)
    soft = teacher(torch.ones(2, 3))
    shown = line(soft.detach().repeat(1, 3)[:, :3])
    judged = shown.mean() + soft.sum()
last = soft = shown = None
""",
    puts_off=True,
)

CELLS["iterators"] = Cell(
    before=BEGIN
    + """
def each(step, items):
    for number, item in enumerate(items):
        step(number, item)

def training(model, opt):
    def step(number, scale):
        for part in (x * scale for x in torch.randn(3, 2, 4).unbind() if x.sum() > -9):
            loss = model(part).pow(2).mean()
            opt.zero_grad(); loss.backward(); opt.step()
            say(number, loss)
    return step
""",
    text="""
import csv
model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.05)
norms, kind = [], "some"
each(training(model, opt), (1 + k / 10 for k in range(2)))
for (name, p), q in zip(model.named_parameters(), (p.detach() for p in model.parameters())):
    norms.append((name, p.norm().item(), q.sum().item()))
with open("rows.csv", "w") as table:
    table.writelines(f'{i},"two\\nlines {i}"\\n' for i in range(4))
with open("rows.csv") as table:
    rows = csv.reader(table)
    for row in rows:
        match row:
            case ["2", *_]:
                for group in opt.param_groups:
                    group["lr"] /= 2
            case [i, text]:
                norms.append((i, text, rows.line_num))
table = rows = q = None
""",
)

CELLS["rl and gan"] = Cell(
    BEGIN
    + """
import copy, itertools
from collections import deque, namedtuple
Step = namedtuple("Step", "s a r")
rng = np.random.default_rng(5)
q = nn.Linear(3, 2)
target = copy.deepcopy(q)
opt = torch.optim.Adam(q.parameters(), lr=1e-2)
replay = deque(maxlen=12)
scores = {}
for t in itertools.count():
    s = torch.tensor(rng.normal(size=3), dtype=torch.float32)
    a = int(rng.integers(2)) if rng.random() < 0.3 else int(q(s).argmax())
    replay.append(Step(s, a, float(rng.normal())))
    if len(replay) >= 4:
        for step in random.sample(list(replay), 3):
            loss = (q(step.s)[step.a] - step.r - 0.9 * target(step.s).max().detach()) ** 2
            opt.zero_grad(); loss.backward(); opt.step()
    scores[f"t{t}"] = len(replay)
    if t % 4 == 3:
        target.load_state_dict(q.state_dict())
    if t == 8:
        break
for name, n in scores.items():
    print(name, n)
G, D = nn.Linear(2, 4), nn.Linear(4, 1)
og, od = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters(), betas=(0.5, 0.9))
for i in reversed(range(4)):
    real, fake = torch.randn(5, 4), G(torch.randn(5, 2))
    d = F.softplus(D(fake.detach())).mean() + F.softplus(-D(real)).mean()
    od.zero_grad(); d.backward(); od.step()
    g = F.softplus(-D(fake)).mean()
    og.zero_grad(); g.backward(); og.step()
    say(i, d, g)
"""
)

CELLS["compiled"] = Cell(
    BEGIN
    + """
model = torch.compile(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)), backend="aot_eager")

@torch.compile(backend="aot_eager")
def loss_of(out, y):
    return (out - y).pow(2).mean()

opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
for epoch in range(2):
    for i in range(4):
        x = torch.randn(6, 4)
        loss = loss_of(model(x), x.sum(1, keepdim=True))
        opt.zero_grad(); loss.backward(); opt.step()
        say(loss)
""",
    slow_to_start=True,
)

CELLS["hf trainer"] = Cell(
    BEGIN
    + DATA
    + """
import os
os.environ["TQDM_DISABLE"]="1"
import transformers
from transformers import Trainer, TrainingArguments
transformers.logging.set_verbosity_error()

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.1), nn.Linear(8, 3))
    def forward(self, x, labels=None):
        out = self.l(x)
        return {"loss": F.cross_entropy(out, labels), "logits": out}

class Items(Dataset):
    def __len__(self):
        return len(X)
    def __getitem__(self, i):
        return {"x": X[i] + 0.01 * torch.randn(6) + 0.01 * random.random(), "labels": Y[i]}

args = TrainingArguments(
    output_dir="out", num_train_epochs=2, per_device_train_batch_size=4, gradient_accumulation_steps=2, seed=5,
    learning_rate=1e-2, logging_steps=1, save_strategy="no", report_to="none", use_cpu=True, disable_tqdm=True)
model = Net()
trainer = Trainer(model=model, args=args, train_dataset=Items())
result = trainer.train()
loss = result.training_loss
steps = result.global_step
told = ("loss", "grad_norm", "learning_rate", "epoch")
history = [{k: v for k, v in one.items() if k in told} for one in trainer.state.log_history]
del trainer, result, args
""",
    slow_to_start=True,
    needs=("transformers", "accelerate"),
    loads=("transformers.trainer",),
    clock="runtime",
)

CELLS["lightning"] = Cell(
    BEGIN
    + DATA
    + """
import logging, warnings
warnings.simplefilter("ignore")
import lightning as L
from lightning.pytorch.callbacks import RichProgressBar
from lightning.pytorch.loggers import CSVLogger
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

class Items(Dataset):
    def __len__(self):
        return len(X)
    def __getitem__(self, i):
        return X[i] + 0.01 * torch.randn(6) + 0.01 * random.random() + 0.01 * np.random.rand(), Y[i]

class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.l = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.1), nn.Linear(8, 3))
        self.seen = []
    def training_step(self, batch, number):
        x, y = batch
        loss = F.cross_entropy(self.l(x.float()), y)
        self.log("loss", loss, on_step=True, on_epoch=True)
        self.seen.append(loss.item())
        return loss
    def validation_step(self, batch, number):
        x, y = batch
        loss = F.cross_entropy(self.l(x.float()), y)
        self.log("val_loss", loss)
        self.seen.append(loss.item())
    def on_validation_epoch_end(self):
        say(self.current_epoch, self.trainer.callback_metrics["val_loss"])
    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=1e-2)
        return [opt], [torch.optim.lr_scheduler.StepLR(opt, 1, 0.5)]

model = Net()
bars = [RichProgressBar(console_kwargs={"stderr": True})]
trainer = L.Trainer(
    max_epochs=3, accelerator="cpu", devices=1, accumulate_grad_batches=2, gradient_clip_val=1.0,
    val_check_interval=0.5, log_every_n_steps=1, callbacks=bars, logger=CSVLogger("."))
trainer.fit(model, DataLoader(Items(), 4, shuffle=True), DataLoader(Items(), 8))
seen, steps = model.seen, trainer.global_step
lr = [group["lr"] for group in trainer.optimizers[0].param_groups]
adam = trainer.optimizers[0]
metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
table = list(open(trainer.logger.log_dir + "/metrics.csv"))
del trainer, bars
""",
    slow_to_start=True,
    needs=("lightning", "rich"),
    loads=("lightning",),
    clock="it/s",
)

CELLS["skorch"] = Cell(
    """
net.fit(X.numpy(), Y.numpy())
losses = [[batch.get("train_loss") for batch in epoch["batches"]] for epoch in net.history]
weights, probabilities = net.module_.state_dict(), net.predict_proba(X.numpy())
""",
    before=BEGIN
    + DATA
    + """
from skorch import NeuralNetClassifier

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3), nn.Softmax(-1))

    def forward(self, x):
        return self.layers(x)

net = NeuralNetClassifier(Net, max_epochs=2, batch_size=6, iterator_train__shuffle=True, verbose=0, lr=0.1)
""",
    slow_to_start=True,
    needs=("skorch",),
)

CELLS["stable-baselines3"] = Cell(
    """
agent.learn(total_timesteps=48, callback=callback)
weights, rewards = agent.policy.state_dict(), callback.rewards
""",
    before=BEGIN
    + """
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback

class Rewards(BaseCallback):
    def __init__(self):
        super().__init__()
        self.rewards = []

    def _on_step(self):
        self.rewards.append(float(self.locals["rewards"][0]))
        return True

callback = Rewards()
small = {"net_arch": [8]}
agent = PPO("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=8, n_epochs=2, seed=5, device="cpu", policy_kwargs=small)
""",
    slow_to_start=True,
    needs=("stable_baselines3",),
)

CELLS["optuna"] = Cell(
    """
study.optimize(objective, n_trials=3)
values, parameters = [one.value for one in study.trials], [one.params for one in study.trials]
""",
    before=BEGIN
    + DATA
    + """
import optuna
optuna.logging.set_verbosity(optuna.logging.ERROR)
study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))

def objective(trial):
    rate = trial.suggest_float("lr", 1e-3, 1e-1, log=True)
    net = nn.Linear(6, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=rate)
    for epoch in range(2):
        for x, y in DataLoader(Noisy(), batch_size=8, shuffle=True):
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad(); loss.backward(); optimizer.step()
        trial.report(loss.item(), epoch)
        if trial.should_prune():
            raise optuna.TrialPruned()
    return loss.item()
""",
    slow_to_start=True,
    needs=("optuna",),
)

CELLS["a pool"] = Cell(
    """
for epoch in range(3):
    futures = [pool.submit(pow, 2, n) for n in range(4)]
    total = sum(one.result() for one in futures)
    del futures
    for x in torch.randn(3, 2):
        say(epoch, total, x.sum())
pool = type(pool).__name__, pool._max_workers
""",
    before=BEGIN
    + """
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(2)
""",
    puts_off=True,
)
