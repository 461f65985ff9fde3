"""Sizes of whole models, traced, against figures that are known otherwise."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
import torch

from jupyter_gpufit.devices.card import Card
from jupyter_gpufit.estimate.tracing.trace import trace_cell
from jupyter_gpufit.units import GiB, MiB
from tests.estimate.cells import IMPORTS
from tests.estimate.traced import A100, peak_by_kind, traced

pytestmark = pytest.mark.slow

V100 = Card("Tesla V100-SXM2-16GB", 16 * GiB, (7, 0), 80)
H100 = Card("NVIDIA H100 80GB HBM3", 80 * GiB, (9, 0), 132)

GPT = (
    IMPORTS
    + """
D, H, L, T, V = 768, 12, 12, 512, 50257
def gelu(h):  # as GPT-2 has it, in steps that are all kept
    return 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * torch.pow(h, 3.0))))
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.up, self.down, self.drop = nn.Linear(D, 4 * D), nn.Linear(4 * D, D), nn.Dropout(0.1)
    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, H, C // H).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(C, 2))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.1)
        x = x + self.drop(self.out(a.transpose(1, 2).reshape(B, T, C)))
        return x + self.drop(self.down(gelu(self.up(self.norm2(x)))))
class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places, self.drop = nn.Embedding(V, D), nn.Embedding(1024, D), nn.Dropout(0.1)
        self.blocks = nn.ModuleList(Block() for _ in range(L))
        self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, V, bias=False)
        self.head.weight = self.tokens.weight
    def forward(self, ids):
        x = self.drop(self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device)))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
model = GPT().to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
for step in range(100):
    ids = torch.randint(0, V, (8, T), device="cuda")
    loss = F.cross_entropy(model(ids)[:, :-1].reshape(-1, V), ids[:, 1:].reshape(-1))
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
"""
)

ATTENTION = (
    IMPORTS
    + """
q, k, v = (torch.randn(2, 4, 256, 64, device="cuda", dtype=torch.DTYPE, requires_grad=True) for _ in range(3))
F.scaled_dot_product_attention(q, k, v).sum().backward()
"""
)


def test_gpt2_small() -> None:
    before = os.times()
    trace = traced(GPT)
    after = os.times()

    assert (trace.status, trace.error, trace.steps) == ("completed", "", 2)
    most = peak_by_kind(trace)
    parameters = 124_439_808  # of GPT-2 small, with its tied embedding counted once
    assert most["parameter"] == 4 * parameters
    assert 2 * 4 * parameters <= most["optimizer state"] < 2 * 4 * parameters + 1000
    # 6 per parameter and token, and 12 L T D per token for the scores; the places' embedding multiplies nothing.
    assert trace.flops_per_step == 8 * 512 * 6 * (12 * 12 * 768**2 + 50257 * 768) + 8 * 512 * 12 * 12 * 512 * 768
    assert trace.samples_per_step == 8
    assert most["all"] / MiB == pytest.approx(7925, abs=5)  # transformers' own, which copies its labels: 8218
    # Of processor time, since a machine that runs tests may be busy.
    assert after.children_user + after.children_system - before.children_user - before.children_system < 10
    assert trace.resident < 512 * MiB


def test_a_model_larger_than_memory_is_built_in_the_cell() -> None:
    trace = traced(
        IMPORTS
        + """
model = nn.Sequential(*(nn.Linear(32768, 32768, bias=False, dtype=torch.bfloat16) for _ in range(16))).cuda()
model(torch.randn(1, 32768, device="cuda", dtype=torch.bfloat16))
"""
    )

    assert (trace.status, trace.error) == ("completed", "")
    assert peak_by_kind(trace)["parameter"] == 32 * GiB
    assert trace.resident < 512 * MiB


def test_a_model_larger_than_memory_comes_from_the_meta_device() -> None:
    trace = traced(
        IMPORTS
        + """
with torch.device("meta"):
    model = nn.Sequential(*(nn.Linear(32768, 32768, bias=False) for _ in range(8)))
model = model.to_empty(device="cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    model(torch.randn(1, 32768, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    )

    assert (trace.status, trace.error, trace.steps) == ("completed", "", 2)
    assert peak_by_kind(trace)["parameter"] == peak_by_kind(trace)["gradient"] == 32 * GiB


@pytest.mark.parametrize(
    ("card", "dtype", "kernel"),
    [
        (A100, "bfloat16", "_scaled_dot_product_flash_attention"),
        (A100, "float32", "_scaled_dot_product_efficient_attention"),
        (V100, "float16", "_scaled_dot_product_efficient_attention"),
        (A100, "float64", "_safe_softmax"),
    ],
)
def test_attention_runs_by_the_kernel_of_the_card(card: Card, dtype: str, kernel: str) -> None:
    trace = trace_cell(ATTENTION.replace("DTYPE", dtype), dict, card)

    assert (trace.status, trace.error) == ("completed", "")
    assert kernel in {block.op for block in trace.blocks}
    scores = 2 * 4 * 256 * 256 * getattr(torch, dtype).itemsize
    assert any(block.size == scores for block in trace.blocks) == (kernel == "_safe_softmax")


@pytest.mark.parametrize(
    ("is_cpu", "kernel"), [(False, "_scaled_dot_product_efficient_attention"), (True, "_safe_softmax")]
)
def test_a_slots_attention_with_dropout_keeps_its_scores_as_a_cpus_does(is_cpu: bool, kernel: str) -> None:
    source = ATTENTION.replace("DTYPE", "float32").replace("(q, k, v)", "(q, k, v, dropout_p=0.1)")
    trace = trace_cell(source, dict, replace(V100, is_cpu=is_cpu))

    assert (trace.status, trace.error) == ("completed", "")
    assert kernel in {block.op for block in trace.blocks}


@pytest.mark.parametrize(("card", "bytes_each"), [(A100, 8_519_680), (H100, 32 * MiB)])
def test_blas_workspaces_of_both_threads(card: Card, bytes_each: int) -> None:
    source = IMPORTS + 'nn.Linear(64, 64).cuda()(torch.randn(8, 64, device="cuda")).sum().backward()\n'

    trace = trace_cell(source, dict, replace(card, sms=1))

    assert [block.size for block in trace.blocks if block.kind == "workspace"] == [bytes_each, bytes_each]
