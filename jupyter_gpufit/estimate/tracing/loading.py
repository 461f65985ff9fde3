"""What a cell reads and keeps: data loaders run in this process, and nothing that is fake is written to a file."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map
from torch.utils.data import DataLoader
from torch.utils.data import dataloader as loaders

from ...cuda.stand_in.device import is_cuda
from .books import Books
from .steps import Steps


def begin(books: Books, steps: Steps) -> None:
    _load_in_this_process(steps)
    _load_to_stand_in()
    torch.save = _dropped(books, "torch.save")
    try:
        safetensors = importlib.import_module("safetensors.torch")
    except ImportError:
        return
    for name in ("save_file", "save_model"):
        setattr(safetensors, name, _dropped(books, f"safetensors {name}"))


def _load_in_this_process(steps: Steps) -> None:
    """Worker processes would be forked from a process full of fakes, and pinning would ask for CUDA."""
    base = loaders._BaseDataLoaderIter
    begin_real, next_real = base.__init__, base.__next__
    plain = {"pin_memory": False, "num_workers": 0, "timeout": 0, "prefetch_factor": None, "persistent_workers": False}

    def begin_plainly(self: Any, loader: DataLoader[Any]) -> None:
        before = {name: vars(loader)[name] for name in plain if name in vars(loader)}
        vars(loader).update({name: plain[name] for name in before})
        try:
            begin_real(self, loader)
        finally:
            vars(loader).update(before)

    def count(self: Any) -> Any:
        batch = next_real(self)
        steps.samples += _length(batch)
        return batch

    base.__init__ = begin_plainly  # type: ignore[method-assign]
    base.__next__ = count  # type: ignore[method-assign]
    DataLoader._get_iterator = lambda self: loaders._SingleProcessDataLoaderIter(self)  # type: ignore[method-assign]


def _length(batch: Any) -> int:
    """Samples in a batch: the first dimension of its first tensor."""
    if isinstance(batch, torch.Tensor):
        return int(batch.shape[0]) if batch.dim() else 1
    if hasattr(batch, "values"):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)):
        return next((found for one in batch if (found := _length(one))), 0)
    return 0


def _load_to_stand_in() -> None:
    real = torch.load

    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        to_cuda = is_cuda(map_location)
        found = real(f, "cpu" if to_cuda or map_location is None else map_location, *args, **kwargs)
        return tree_map(lambda t: t.to("cuda") if isinstance(t, torch.Tensor) else t, found) if to_cuda else found

    torch.load = load


def _dropped(books: Books, what: str) -> Callable[..., None]:
    def save(*args: Any, **kwargs: Any) -> None:
        books.notes[f"not written: {what}"] += 1

    return save
