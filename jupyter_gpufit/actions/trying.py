"""Trying a deployed model: called once, with inputs made from its signature."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import numpy as np

from ..calls.client import DeployedModel, DeployedModels
from ..errors import NoSuchJob
from ..models.made import made
from ..settings import Settings
from ..system.background import aside
from .buttons import find_mine


async def try_it(settings: Settings, id: str) -> AsyncIterator[str]:
    """Call it, and each of several; what came back, and how soon."""
    job, paths = find_mine(settings, id)
    if job.model is None:
        raise NoSuchJob(id)
    sizes = job.model.sizes
    for model in DeployedModels(settings, job, paths):
        yield await aside(partial(_tried, model, sizes))


def _tried(model: DeployedModel, sizes: dict[str, int]) -> str:
    inputs = [made(slot, 1, sizes) for slot in model.signature.inputs]
    began = time.perf_counter()
    answer = model(*inputs)
    took = time.perf_counter() - began
    answers = answer if isinstance(answer, tuple) else (answer,)
    words = [
        f"{slot.name}: {one.dtype} {list(one.shape)}{_range(one)}"
        for slot, one in zip(model.signature.outputs, answers, strict=True)
    ]
    return f"{model.called} answered in {took * 1e3:.3g} ms. {'; '.join(words)}"


def _range(answer: np.ndarray[Any, Any]) -> str:
    if not answer.size or answer.dtype.kind not in "iuf":
        return ""
    return f" from {answer.min():.3g} to {answer.max():.3g}"
