"""How soon a real program's cell begins: from the press of the key to the cell's first line, its estimate included.

Notebooks as people write them, a small CNN, a small GPT, and one with large libraries (where they are installed), whose
setup is in earlier cells. The floor beside them
is `python -c "import torch"`. Each is run anew (another text, so that nothing is known of it) and again (the same text,
given the same), cold and with a spare worker. On a busy machine the processors' seconds say more than the clock's.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
from common import package_root, seconds, show_table, write_results

package_root()

from tests.kernels import Kernel, environment, running_kernel  # noqa: E402 - needs the path above

REPEAT = 5
QUIET = 1.0  # seconds in which nothing computes, before the cell is sent
SETUP = {
    "a CNN": (
        """
import numpy as np, torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
device = "cuda" if torch.cuda.is_available() else "cpu"
""",
        """
images, labels = torch.randn(2000, 1, 28, 28), torch.randint(10, (2000,))
loader = DataLoader(TensorDataset(images, labels), batch_size=64, shuffle=True)
""",
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3), nn.Conv2d(32, 64, 3)
        self.drop, self.fc1, self.fc2 = nn.Dropout(0.25), nn.Linear(9216, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        return self.fc2(self.drop(F.relu(self.fc1(torch.flatten(x, 1)))))

model = Net().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
""",
    ),
    "a GPT": (
        """
import math, numpy as np, torch, torch.nn as nn, torch.nn.functional as F
device = "cuda" if torch.cuda.is_available() else "cpu"
block_size, n_embd, n_head, n_layer, vocab = 128, 192, 6, 6, 65
""",
        """
data = torch.from_numpy(np.random.randint(0, vocab, 1_000_000))

def get_batch(size=16):
    at = torch.randint(len(data) - block_size, (size,))
    x = torch.stack([data[i:i + block_size] for i in at])
    y = torch.stack([data[i + 1:i + 1 + block_size] for i in at])
    return x.to(device), y.to(device)
""",
        """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.qkv, self.out = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)
        self.mlp = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd))

    def forward(self, x):
        B, T, C = x.shape
        parts = self.qkv(self.ln1(x)).split(C, dim=2)  # 3 of (B, T, C)
        q, k, v = (part.view(B, T, n_head, C // n_head).transpose(1, 2) for part in parts)  # (B, H, T, C/H)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, C))
        return x + self.mlp(self.ln2(x))

class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, n_embd), nn.Embedding(block_size, n_embd)
        self.blocks = nn.Sequential(*[Block() for _ in range(n_layer)])
        self.ln, self.head = nn.LayerNorm(n_embd), nn.Linear(n_embd, vocab)

    def forward(self, idx, targets):
        x = self.tok(idx) + self.pos(torch.arange(idx.shape[1], device=idx.device))
        logits = self.head(self.ln(self.blocks(x)))
        return logits, F.cross_entropy(logits.view(-1, vocab), targets.view(-1))

model = GPT().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
""",
    ),
}
if find_spec("transformers") and find_spec("sklearn"):
    SETUP["transformers, scikit-learn and pandas"] = (
        """
import numpy as np, pandas as pd, torch
from sklearn.model_selection import train_test_split
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
device = "cuda" if torch.cuda.is_available() else "cpu"
""",
        """
config = GPT2Config(n_layer=2, n_embd=64, n_head=2, vocab_size=100, n_positions=64)
model = GPT2LMHeadModel(config).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
rows, _ = train_test_split(torch.randint(0, 100, (64, 32)), random_state=0)
""",
    )
CELL = {
    "a CNN": """
print("the first line of {anew}")
for x, y in loader:
    loss = F.cross_entropy(model(x.to(device)), y.to(device))
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    break
""",
    "transformers, scikit-learn and pandas": """
print("the first line of {anew}")
for row in rows[:4]:
    loss = model(row[None].to(device), labels=row[None].to(device)).loss
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    break
""",
    "a GPT": """
print("the first line of {anew}")
for step in range(1):
    x, y = get_batch()
    logits, loss = model(x, y)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
""",
}


def first_line(kernel: Kernel, cell: str) -> tuple[float, float]:
    """Seconds from sending the cell until its first line is here, and those of processors; then it runs to its end."""
    began, computed = time.perf_counter(), cpu(kernel)
    sent = kernel.send(cell)
    kernel.until(sent, "the first line")
    taken = time.perf_counter() - began, cpu(kernel) - computed
    ran = kernel.finish(sent)
    assert ran.ok, ran.traceback
    return taken


def cpu(kernel: Kernel) -> float:
    """Seconds that the kernel, its workers and what those have started and ended have computed."""
    process = psutil.Process(kernel.manager.provisioner.process.pid)  # type: ignore[union-attr]
    total = sum(process.cpu_times()[:2])
    for child in process.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            total += sum(child.cpu_times()[:4])  # with the trial run, which has ended
    return total


def import_torch() -> dict[str, float]:
    """The floor: what a process needs that does nothing else."""
    command = [sys.executable, "-c", "import torch"]
    began = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = seconds(lambda: subprocess.run(command, check=True), REPEAT)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found | {"cpu": (ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime) / REPEAT}


def split(home: Path) -> dict[str, float]:
    """Seconds of the newest job's start, by what its journal says."""
    root = max((home / ".local/share/gpufit/jobs").iterdir(), key=lambda path: path.stat().st_ctime)
    before, what = json.loads((root / "job.json").read_text())["created"], "shipping and import"
    after = {"estimating": "estimate", "queued": "claim", "running": "arrival"}
    found: dict[str, float] = {}
    for line in (root / "journal.jsonl").read_text().splitlines():
        entry = json.loads(line)
        state = entry.get("state", "") if entry["kind"] == "state" else ""
        if state not in after and entry["kind"] != "text":
            continue
        found[what] = entry["time"] - before
        before, what = entry["time"], after.get(state, "")
        if entry["kind"] == "text":
            break
    return found


def starts(name: str, *, spare: bool, again: bool) -> dict[str, Any]:
    """Of one notebook: cells of which nothing is known, or the same cell again, given the same."""
    taken, computed, parts = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        more = {"GPUFIT_DEVICES": "cpu:2x4GiB", "GPUFIT_SPARE_WORKER": "auto" if spare else "never"}
        with running_kernel(environment(home, **more), home) as kernel:
            for number in range(REPEAT + 1):
                for cell in SETUP[name]:
                    kernel.check(cell)
                wait_for_the_spare(kernel)
                text = CELL[name].format(anew="it" if again else number)
                wall, of_processors = first_line(kernel, f"%%gpufit train\n{text}")
                taken.append(wall)
                computed.append(of_processors)
                parts.append(split(home))
    medians = {part: statistics.median(one.get(part, 0.0) for one in parts[1:]) for part in parts[-1]}
    wall_of = {"min": min(taken[1:]), "median": statistics.median(taken[1:]), "max": max(taken[1:])}
    return wall_of | {"cpu": statistics.median(computed[1:]), "split": medians}


def wait_for_the_spare(kernel: Kernel) -> None:
    """As long as it computes: a person reads meanwhile."""
    before = -1.0
    while before < (now := cpu(kernel)):
        before = now
        time.sleep(QUIET)


def main() -> None:
    results: dict[str, Any] = {"python -c 'import torch'": import_torch()}
    for name in SETUP:
        for spare in (False, True):
            for again in (False, True):
                how = f"{name}, {'with a spare' if spare else 'cold'}, {'again' if again else 'anew'}"
                results[how] = starts(name, spare=spare, again=again)
    rows = []
    for name, figures in results.items():
        parts = ", ".join(f"{part} {value:.2f}" for part, value in figures.get("split", {}).items())
        rows.append((name, *(f"{figures[key]:.2f}" for key in ("min", "median", "max", "cpu")), parts))
    show_table(("start of", "min s", "median s", "max s", "processors' s", "median of its parts, s"), rows)
    write_results("start", results)


if __name__ == "__main__":
    main()
