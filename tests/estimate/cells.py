"""Training cells as people write them, by what is special in each. None knows that it is traced."""

from __future__ import annotations

IMPORTS = """
import copy, math
import torch
from torch import nn
import torch.nn.functional as F
"""

CNN = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
        self.norm, self.head = nn.BatchNorm2d(16), nn.Linear(32 * 16, 10)
    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv1(x))), 4)
        return self.head(F.adaptive_avg_pool2d(F.relu(self.conv2(x)), 4).flatten(1))
"""

LOADER = """
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.randn(64, 3, 32, 32), torch.randint(0, 10, (64,)))
"""

LOOP = """
model = nn.Sequential(nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 1)).to("cuda")
optimizer = {optimizer}
for step in range(100):
    x = torch.randn(32, 256, device="cuda")
    optimizer.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()
    optimizer.step()
"""


def with_optimizer(optimizer: str) -> str:
    return IMPORTS + LOOP.format(optimizer=optimizer)


AMP_LOOP = (
    IMPORTS
    + CNN
    + LOADER
    + """
torch.backends.cudnn.benchmark = True
loader = DataLoader(data, batch_size=16, shuffle=True, pin_memory=True, num_workers={workers})
model = Net().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=1000)
scaler = torch.amp.GradScaler("cuda")
for epoch in range(20):
    for x, y in loader:
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.float16):
            out = model(x)
            assert out.dtype == torch.float16, out.dtype
            loss = F.cross_entropy(out, y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
assert torch.cuda.max_memory_allocated() > 0
"""
)

CELLS = {
    "transformer with a target mask": IMPORTS
    + """
model = nn.Transformer(64, 4, 2, 2, 128, batch_first=True).to("cuda")
optimizer = torch.optim.Adam(model.parameters())
mask = nn.Transformer.generate_square_subsequent_mask(20, device="cuda")
for _ in range(50):
    source, target = torch.rand(8, 30, 64, device="cuda"), torch.rand(8, 20, 64, device="cuda")
    loss = F.mse_loss(model(source, target, tgt_mask=mask), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "mixed precision": AMP_LOOP.format(workers=0),
    "mixed precision, two loader workers": AMP_LOOP.format(workers=2),
    "channels last": IMPORTS
    + CNN
    + """
model = Net().to("cuda", memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    x = torch.randn(8, 3, 32, 32).to("cuda", memory_format=torch.channels_last)
    assert x.is_contiguous(memory_format=torch.channels_last)
    model(x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    "torch.compile": IMPORTS
    + """
model = torch.compile(nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 4))).to("cuda")
optimizer = torch.optim.Adam(model.parameters())
@torch.compile
def loss_of(x):
    return model(x).pow(2).mean()
@torch.jit.script
def halved(x):
    return x / 2
drawn = torch.jit.trace(model, torch.zeros(1, 64, device="cuda"), strict=False)
list(drawn.graph.nodes())  # as trackers draw a model
torch.jit.save(torch.jit.script(nn.Sequential(drawn)), "model.pt")
model = torch.jit.script(model)
for _ in range(10):
    halved(loss_of(torch.randn(8, 64, device="cuda"))).backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    "LSTM": IMPORTS
    + """
model = nn.LSTM(32, 64, num_layers=2, dropout=0.2, batch_first=True).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for _ in range(10):
    out, (h, c) = model(torch.randn(4, 25, 32, device="cuda"))
    optimizer.zero_grad()
    out[:, -1].sum().backward()
    optimizer.step()
""",
    "boolean mask": IMPORTS
    + """
model = nn.Linear(16, 16).cuda()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(10):
    out = model(torch.randn(32, 16, device="cuda"))
    kept = out[out[:, 0] > 0]
    loss = kept.sum() + out.masked_select(out > 1).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "control flow on values": IMPORTS
    + """
model = nn.Linear(16, 4).cuda()
optimizer = torch.optim.Adam(model.parameters())
history = []
for step in range(10):
    out = model(torch.randn(8, 16, device="cuda"))
    loss = out.pow(2).mean()
    if torch.isnan(loss):
        raise RuntimeError("diverged")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(float(loss) + loss.item())
    array = out.detach().cpu().numpy()
    print(f"{loss:.3f} {array.mean():.2f}", out.topk(2)[0].tolist()[0], torch.where(out > 0))
best = min(history)
""",
    "sparse embedding": IMPORTS
    + """
model = nn.Embedding(1000, 16, sparse=True).cuda()
optimizer = torch.optim.SparseAdam(model.parameters())
head = nn.Linear(16, 1, bias=False).cuda()
for _ in range(10):
    head(model(torch.randint(0, 1000, (32,), device="cuda"))).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    "GRU on a packed sequence": IMPORTS
    + """
model = nn.GRU(16, 32).cuda()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(10):
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(9, 3, 16, device="cuda"), torch.tensor([9, 5, 2]))
    out, _ = nn.utils.rnn.pad_packed_sequence(model(packed)[0])
    optimizer.zero_grad()
    out.sum().backward()
    optimizer.step()
""",
    "frozen parts": IMPORTS
    + """
body, head = nn.Linear(64, 64), nn.Linear(64, 4)
body.requires_grad_(False)
model = nn.Sequential(body, nn.ReLU(), head).cuda()
optimizer = torch.optim.Adam(head.parameters())
for _ in range(10):
    model(torch.randn(8, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    "LBFGS": IMPORTS
    + """
model = nn.Linear(16, 4).cuda()
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4, history_size=3)
x = torch.randn(8, 16, device="cuda")
def closure():
    optimizer.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()
    return loss
for _ in range(10):
    optimizer.step(closure)
""",
    "gradient accumulation": IMPORTS
    + LOADER
    + CNN
    + """
model = Net().cuda()
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(100):
    for i, (x, y) in enumerate(DataLoader(data, batch_size=8)):
        loss = F.cross_entropy(model(x.cuda()), y.cuda()) / 4
        loss.backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
""",
    "GAN": IMPORTS
    + """
G = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 32)).cuda()
D = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1)).cuda()
opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
for step in range(100):
    real, noise = torch.randn(8, 32, device="cuda"), torch.randn(8, 16, device="cuda")
    mixed = (0.5 * real + 0.5 * G(noise).detach()).requires_grad_()
    grad, = torch.autograd.grad(D(mixed).sum(), mixed, create_graph=True)
    loss_d = D(G(noise).detach()).mean() - D(real).mean() + (grad.norm(dim=1) - 1).pow(2).mean()
    opt_d.zero_grad()
    loss_d.backward()
    opt_d.step()
    opt_g.zero_grad()
    (-D(G(noise)).mean()).backward()
    opt_g.step()
""",
    "custom autograd function": IMPORTS
    + """
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3
    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return 3 * x ** 2 * g
model = nn.Linear(16, 4).cuda()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(10):
    Cube.apply(model(torch.randn(8, 16, device="cuda"))).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    "Fourier transform": IMPORTS
    + """
model = nn.Linear(16, 16).cuda()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(10):
    torch.fft.rfft(model(torch.randn(8, 16, device="cuda"))).abs().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    "tensors of a class of their own": IMPORTS  # as fastai, MONAI and torchvision's transforms make them
    + """
from torch.utils.data import DataLoader
class Image(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        found = super().__torch_function__(func, types, args, kwargs or {})
        if isinstance(found, Image):
            found.named = getattr(args[0], "named", "")
        return found
images = [torch.randn(3, 8, 8).as_subclass(Image) for _ in range(32)]
assert type(images[0] + 1) is Image
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 2)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for images in DataLoader(images, batch_size=8):
    images = images.to("cuda")
    loss = (model(images) - images.mean((1, 2, 3))[:, None]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "default device": IMPORTS
    + """
torch.set_default_device("cuda")
model = nn.Linear(16, 16)
assert model.weight.is_cuda and model.weight.device.type == "cuda"
optimizer = torch.optim.Adam(model.parameters())
for _ in range(10):
    model(torch.randn(8, 16)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    "checkpointing of both kinds": IMPORTS
    + """
from torch.utils.checkpoint import checkpoint
blocks = nn.ModuleList(nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)) for _ in range(4)).cuda()
optimizer = torch.optim.Adam(blocks.parameters())
for _ in range(10):
    x = torch.randn(8, 64, device="cuda", requires_grad=True)
    for number, block in enumerate(blocks):
        x = checkpoint(block, x, use_reentrant=number % 2 == 0)
    x.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    "moving average, saved and loaded": IMPORTS
    + """
import os, tempfile
model = nn.Linear(64, 64).to("cuda")
average = copy.deepcopy(model)
optimizer = torch.optim.Adam(model.parameters())
model.load_state_dict(model.state_dict())
optimizer.load_state_dict(optimizer.state_dict())
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
generator = torch.Generator("cuda").manual_seed(1)
for _ in range(10):
    try:
        loss = model(torch.randn(8, 64, device="cuda", generator=generator)).sum()
        loss.backward()
        optimizer.step()
    except:
        raise
    optimizer.zero_grad()
    with torch.no_grad():
        for p, q in zip(average.parameters(), model.parameters()):
            p.lerp_(q, 0.01)
    plateau.step(loss)
    torch.save(model.state_dict(), "best.pt")
""",
    "data parallel": IMPORTS
    + """
model = nn.DataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)))
model.load_state_dict(copy.deepcopy(model.state_dict()))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(10):
    loss = model(torch.randn(8, 64)).pow(2).mean()  # which it moves
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "the older mixed precision": IMPORTS
    + """
model = nn.Linear(64, 64).cuda()
optimizer = torch.optim.Adam(model.parameters())
scaler = torch.cuda.amp.GradScaler()
for _ in range(10):
    with torch.cuda.amp.autocast():
        loss = model(torch.randn(8, 64, device="cuda")).float().sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
""",
}

OPTIMIZERS = {  # with the tensors of a parameter's size that each keeps per parameter
    "torch.optim.Adagrad(model.parameters())": 1,
    "torch.optim.RMSprop(model.parameters())": 1,
    "torch.optim.NAdam(model.parameters())": 2,
    "torch.optim.RAdam(model.parameters())": 2,
    "torch.optim.Rprop(model.parameters())": 2,
    "torch.optim.ASGD(model.parameters())": 1,
    "torch.optim.Adamax(model.parameters())": 2,
    "torch.optim.Adadelta(model.parameters())": 2,
    "torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)": 1,
    "torch.optim.SGD(model.parameters(), lr=0.1)": 0,
    "torch.optim.Adam(model.parameters(), amsgrad=True)": 3,
}
