"""What a training has around its loops: files, managers, loader workers, graphs, iterators, environments."""

from __future__ import annotations

from .matrix_cell import BEGIN, DATA, Cell

THINGS: dict[str, Cell] = {}

THINGS["files"] = Cell(
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

THINGS["managers"] = Cell(
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

THINGS["expressions"] = Cell(
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

THINGS["workers"] = Cell(
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

THINGS["shared"] = Cell(
    """
for epoch in range(3):
    flag.value = epoch
    for at, x in enumerate(loader):
        say(epoch, at, x.sum())
        w += x.mean(0)
    loader.dataset.cached = True
    say(float(view.sum()), flag.value)
say(*w)
""",
    before=BEGIN
    + """
import ctypes, multiprocessing as mp
flag, array = mp.Value("i", -1), mp.Array(ctypes.c_float, 8 * 3)
view = np.ctypeslib.as_array(array.get_obj()).reshape(8, 3)
w = torch.zeros(3)

class Caching(Dataset):
    cached = False
    def __init__(self):
        self.rows = torch.from_numpy(view)
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, at):
        if not self.cached:
            self.rows[at] = at + flag.value + torch.arange(3)
        return self.rows[at] * 1.0

loader = DataLoader(Caching(), batch_size=4, num_workers=1)
""",
)

THINGS["nanogpt"] = Cell(
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

THINGS["graphs"] = Cell(
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

THINGS["iterators"] = Cell(
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

THINGS["rl and gan"] = Cell(
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
