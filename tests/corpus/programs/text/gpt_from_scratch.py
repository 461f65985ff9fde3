"""A GPT by hand: fused attention, gradient accumulation, GradScaler, autocast, warm-up and cosine decay, clipping."""
import math
import time
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
from torch.nn import functional as F

batch_size, block_size, gradient_accumulation_steps = 8, 32, 3
max_iters, eval_interval, eval_iters, warmup_iters = 80, 20, 3, 5
learning_rate, min_lr, grad_clip, dtype = 1e-3, 1e-4, 1.0, "float16"
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(1337)
np.random.seed(1337)
ptdtype = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[dtype]
ctx = nullcontext() if device == "cpu" else torch.amp.autocast(device_type="cuda", dtype=ptdtype)

# %%
text = "the quick brown fox jumps over the lazy dog. " * 80
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
data = np.array([stoi[c] for c in text], dtype=np.uint16)


def get_batch(split):
    part = data[: int(0.9 * len(data))] if split == "train" else data[int(0.9 * len(data)) :]
    ix = torch.randint(len(part) - block_size, (batch_size,))
    x = torch.stack([torch.from_numpy(part[i : i + block_size].astype(np.int64)) for i in ix])
    y = torch.stack([torch.from_numpy(part[i + 1 : i + 1 + block_size].astype(np.int64)) for i in ix])
    if device == "cuda":
        return x.pin_memory().to(device, non_blocking=True), y.pin_memory().to(device, non_blocking=True)
    return x.to(device), y.to(device)


# %%
@dataclass
class GPTConfig:
    vocab_size: int = 32
    n_layer: int = 2
    n_head: int = 4
    n_embd: int = 64


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.ln_1, self.ln_2, self.n_head = nn.LayerNorm(c.n_embd), nn.LayerNorm(c.n_embd), c.n_head
        self.c_attn, self.c_proj = nn.Linear(c.n_embd, 3 * c.n_embd), nn.Linear(c.n_embd, c.n_embd)
        self.mlp = nn.Sequential(nn.Linear(c.n_embd, 4 * c.n_embd), nn.GELU(), nn.Linear(4 * c.n_embd, c.n_embd))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = (t.view(B, T, self.n_head, -1).transpose(1, 2) for t in self.c_attn(self.ln_1(x)).split(C, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(c.vocab_size, c.n_embd), nn.Embedding(block_size, c.n_embd)
        self.h, self.ln_f = nn.ModuleList(Block(c) for _ in range(c.n_layer)), nn.LayerNorm(c.n_embd)
        self.lm_head = nn.Linear(c.n_embd, c.vocab_size, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1), device=idx.device))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


model = GPT(GPTConfig(vocab_size=len(chars))).to(device)
decay = [p for p in model.parameters() if p.dim() >= 2]
rest = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW(
    [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=learning_rate, betas=(0.9, 0.95)
)
scaler = torch.amp.GradScaler("cuda", enabled=(dtype == "float16" and device == "cuda"))


def get_lr(it):
    if it < warmup_iters:
        return learning_rate * (it + 1) / (warmup_iters + 1)
    ratio = (it - warmup_iters) / (max_iters - warmup_iters)
    return min_lr + 0.5 * (1.0 + math.cos(math.pi * ratio)) * (learning_rate - min_lr)


@torch.no_grad()
def estimate_loss():
    model.eval()
    out = {split: torch.stack([model(*get_batch(split))[1] for _ in range(eval_iters)]).mean() for split in ["train", "val"]}
    model.train()
    return out


# %% train
X, Y = get_batch("train")
t0, iter_num, best_val_loss = time.time(), 0, 1e9
while True:
    lr = get_lr(iter_num)
    for param_group in optimizer.param_groups:
        param_group["lr"] = lr
    if iter_num % eval_interval == 0:
        losses = estimate_loss()
        print(f"step {iter_num}: train loss {losses['train']:.4f}, val loss {losses['val']:.4f}")
        if losses["val"] < best_val_loss:
            best_val_loss = losses["val"]
            if iter_num > 0:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "iter": iter_num}, "ckpt.pt")
    for micro_step in range(gradient_accumulation_steps):
        with ctx:
            logits, loss = model(X, Y)
            loss = loss / gradient_accumulation_steps
        X, Y = get_batch("train")
        scaler.scale(loss).backward()
    if grad_clip != 0.0:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    t1 = time.time()
    dt, t0 = t1 - t0, t1
    iter_num += 1
    if iter_num > max_iters:
        break

# %%
print(sorted(torch.load("ckpt.pt", map_location=device)), f"{best_val_loss:.3f}")
