"""Trainings small enough for any GPU and unlike each other, with what runs and what estimates them."""

from __future__ import annotations

import json
import os
from typing import Any

LOOP = """
for step in range(5):
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled={half}):
        loss = loss_of()
    loss.backward()
    optimizer.step()
"""
GPT = """
import torch
from tests.estimate.gpt import Gpt
model = Gpt().to("cuda")
optimizer = torch.optim.{optimizer}
def loss_of():
    ids = torch.randint(0, 50257, ({batch}, 512), device="cuda")
    return model(ids, ids)
"""
RESNET = """
import torch
from tests.estimate.resnet import ResNet50
model = ResNet50().to("cuda"{layout})
optimizer = torch.optim.{optimizer}
def loss_of():
    x = torch.randn({batch}, 3, 224, 224, device="cuda"){layout_of_x}
    return torch.nn.functional.cross_entropy(model(x), torch.zeros({batch}, dtype=torch.long, device="cuda"))
"""
MLP = """
import torch
model = torch.nn.Sequential(*[torch.nn.Linear({width}, {width}) for _ in range(8)]).to("cuda")
optimizer = torch.optim.{optimizer}
def loss_of():
    return model(torch.randn({batch}, {width}, device="cuda")).square().mean()
"""
LSTM = """
import torch
model = torch.nn.LSTM(512, 1024, 2, dropout=0.1, batch_first=True).to("cuda")
optimizer = torch.optim.{optimizer}
def loss_of():
    return model(torch.randn({batch}, 256, 512, device="cuda"))[0].square().mean()
"""
BERT = """
import torch
from tests.estimate.bert import Bert
model = Bert(width=768, layers=12, heads=12, recompute={recompute}).to("cuda")
optimizer = torch.optim.{optimizer}
def loss_of():
    ids = torch.randint(0, 30000, ({batch}, 512), device="cuda")
    return model(ids, torch.zeros({batch}, dtype=torch.long, device="cuda"))
"""
ADAMW, SGD = "AdamW(model.parameters())", "SGD(model.parameters(), lr=0.1, momentum=0.9)"


def _job(text: str, *, half: bool = False, batch: int, optimizer: str = ADAMW, **more: object) -> str:
    return text.format(batch=batch, optimizer=optimizer, **more) + LOOP.format(half=half)


_PLAIN: dict[str, Any] = {"layout": "", "layout_of_x": ""}
_LAST: dict[str, Any] = {
    "layout": ", memory_format=torch.channels_last",
    "layout_of_x": ".to(memory_format=torch.channels_last)",
}
JOBS = {
    "gpt 4": _job(GPT, batch=4),
    "gpt 8": _job(GPT, batch=8),
    "gpt 8 bf16": _job(GPT, batch=8, half=True),
    "gpt 8 fused": _job(GPT, batch=8, optimizer="AdamW(model.parameters(), fused=True)"),
    "resnet 16": _job(RESNET, batch=16, **_PLAIN),
    "resnet 64": _job(RESNET, batch=64, **_PLAIN),
    "resnet 64 bf16": _job(RESNET, batch=64, half=True, **_PLAIN),
    "resnet 64 channels last": _job(RESNET, batch=64, half=True, **_LAST),
    "resnet 64 sgd": _job(RESNET, batch=64, optimizer=SGD, **_PLAIN),
    "mlp": _job(MLP, batch=8192, width=4096),
    "mlp for-loop": _job(MLP, batch=8192, width=4096, optimizer="AdamW(model.parameters(), foreach=False)"),
    "mlp small": _job(MLP, batch=64, width=1024),
    "lstm": _job(LSTM, batch=64),
    "bert": _job(BERT, batch=8, recompute=False),
    "bert recomputing": _job(BERT, batch=8, recompute=True),
    "bert bf16": _job(BERT, batch=8, recompute=False, half=True),
}

MEASURE = """
import json, sys
from jupyter_gpufit.devices.nvml import read_gpus
cell = sys.stdin.read()
before = read_gpus()[0].used  # by the driver: the first question to CUDA makes the context, which is to be counted
import torch
exec(cell)
torch.cuda.synchronize()
stats = torch.cuda.memory_stats()
used = read_gpus()[0].used - before
print(json.dumps({
    "allocated": torch.cuda.max_memory_allocated(),
    "reserved": torch.cuda.max_memory_reserved(),
    "requested": stats["requested_bytes.all.peak"],
    "retries": stats["num_alloc_retries"],
    "context": max(0, used - torch.cuda.memory_reserved()),
}))
"""


def estimate(cell: str) -> None:
    """Print the estimate of a job for the GPU that is here, which NVML names without CUDA."""
    from jupyter_gpufit.devices.here import read_devices
    from jupyter_gpufit.estimate.asking.ask import Ask
    from jupyter_gpufit.estimate.asking.look import look
    from jupyter_gpufit.estimate.asking.target import largest_of, target_of
    from jupyter_gpufit.settings import Settings

    settings = Settings()
    target = target_of(settings, largest_of(read_devices(settings)))
    answer = look(cell, dict, Ask(card=target.card, kind=target.kind, context=target.context, steps=3))
    assert not answer.failure, answer.failure
    os.write(1, json.dumps(json.loads(answer.estimate.to_json())).encode() + b"\n")
