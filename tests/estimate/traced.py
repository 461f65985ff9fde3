"""Traces of real cells, and what tests ask of them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from textwrap import dedent
from typing import Any

import torch

from jupyter_gpufit.devices.card import Card
from jupyter_gpufit.estimate.reckoning.record import Trace
from jupyter_gpufit.estimate.tracing.trace import trace_cell
from jupyter_gpufit.units import GiB

A100 = Card("NVIDIA A100-SXM4-40GB", 40 * GiB, (8, 0), 108)


def traced(source: str, open_namespace: Callable[[], dict[str, object]] = dict, **options: Any) -> Trace:
    return trace_cell(dedent(source), open_namespace, A100, **{"limit": 300.0} | options)


def peak_by_kind(trace: Trace) -> Counter[str]:
    """The most bytes of each kind that lived at one time, and of all together."""
    now: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for change in trace.changes:
        block = trace.blocks[change.block]
        for key in (block.kind, "all"):
            now[key] += block.size if change.alive else -block.size
            most[key] = max(most[key], now[key])
    return most


def hashed(*things: object) -> str:
    """What tells these values from others."""
    digest = hashlib.sha256()
    for thing in things:
        digest.update(thing.detach().numpy().tobytes() if isinstance(thing, torch.Tensor) else repr(thing).encode())
    return digest.hexdigest()
