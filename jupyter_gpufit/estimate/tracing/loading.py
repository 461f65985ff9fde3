"""What a cell reads and keeps: data loaders run in this process, and nothing that is fake is written to a file.

What is saved can be loaded again, as it would be after the training.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_map
from torch.utils.data import DataLoader
from torch.utils.data import dataloader as loaders

from ...cuda.slot.files import as_of_cuda
from ...cuda.stand_in.device import is_cuda, on_stand_in
from .books import Books
from .steps import Steps

_MARK = b"saved while estimating "


def begin(books: Books, steps: Steps) -> None:
    _load_in_this_process(steps)
    saved = _Saved(books)
    torch.save, torch.load = saved.save, saved.load
    serialization: Any = torch.serialization
    serialization._load = as_of_cuda(serialization._load)
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
        steps.samples += (length := _length(batch))
        steps.largest_batch = max(steps.largest_batch, length)
        return batch

    base.__init__ = begin_plainly  # type: ignore[method-assign]
    base.__next__ = count  # type: ignore[method-assign]
    DataLoader._get_iterator = lambda self: loaders._SingleProcessDataLoaderIter(self)  # type: ignore[method-assign]
    # fastai has loaders of its own, and makes this by its class.
    many: Any = loaders._MultiProcessingDataLoaderIter
    many.__new__ = lambda cls, loader: loaders._SingleProcessDataLoaderIter(loader)


def _length(batch: Any) -> int:
    """Samples in a batch: the first dimension of its first tensor."""
    if isinstance(batch, torch.Tensor):
        return int(batch.shape[0]) if batch.dim() else 1
    if hasattr(batch, "values"):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)):
        return next((found for one in batch if (found := _length(one))), 0)
    return 0


class _Saved:
    """What the cell would have written with torch.save, for it to read again: the best weights of a training.

    A mark stands for it where it was to be written, and wherever that is copied: from a buffer into a file, say.
    """

    def __init__(self, books: Books) -> None:
        self._books, self._load = books, torch.load
        self._kept: list[Any] = []

    def save(self, obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        self._books.notes["not written: torch.save"] += 1
        mark = _MARK + len(self._kept).to_bytes(4, "little")
        self._kept.append(tree_map(_without_device, obj))
        if not isinstance(f, (str, bytes, os.PathLike)):
            f.write(mark)
            return
        with suppress(OSError), open(f, "wb") as file:  # in the scratch directory
            file.write(mark)

    def load(self, f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        if (number := _marked(f)) is not None:
            return tree_map(lambda t: t.made(map_location) if isinstance(t, _OnDevice) else t, self._kept[number])
        if map_location is None:
            where = _Where()
            return tree_map(where.there, self._load(f, where, *args, **kwargs))
        to_cuda = is_cuda(map_location)
        found = self._load(f, "cpu" if to_cuda else map_location, *args, **kwargs)
        return tree_map(_to_cuda, found) if to_cuda else found


class _Where:
    """As a `map_location`: lets everything be read into the host's memory, and knows what goes to the device."""

    def __init__(self) -> None:
        self._there: set[int] = set()

    def __call__(self, storage: Any, location: str) -> Any:
        if is_cuda(location):
            self._there.add(storage._cdata)
        return storage

    def there(self, value: Any) -> Any:
        return _to_cuda(value, lambda tensor: tensor.untyped_storage()._cdata in self._there)


def _to_cuda(value: Any, goes: Callable[[torch.Tensor], bool] = lambda tensor: True) -> Any:
    """A tensor, or a whole model's."""
    if isinstance(value, torch.nn.Module):
        return value._apply(lambda tensor: tensor.to("cuda") if goes(tensor) else tensor)
    return value.to("cuda") if isinstance(value, torch.Tensor) and goes(value) else value


def _marked(f: Any) -> int | None:
    """Which of what was saved is marked there; nothing is read of what is something else."""
    with suppress(OSError):
        if isinstance(f, (str, bytes, os.PathLike)):
            with open(f, "rb") as file:
                return _marked(file)
        if not hasattr(f, "seek"):
            return None
        at, head = f.tell(), f.read(len(_MARK) + 4)
        if head[: len(_MARK)] == _MARK:
            return int.from_bytes(head[len(_MARK) :], "little")
        f.seek(at)
    return None


@dataclass(frozen=True)
class _OnDevice:
    """A tensor of the device, that is to hold none of its memory."""

    shape: torch.Size
    dtype: torch.dtype

    def made(self, map_location: Any) -> torch.Tensor:
        named = isinstance(map_location, (str, torch.device))
        return torch.empty(self.shape, dtype=self.dtype, device=map_location if named else "cuda")


def _without_device(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return _OnDevice(value.shape, value.dtype) if on_stand_in(value) else value.detach().clone()


def _dropped(books: Books, what: str) -> Callable[..., None]:
    def save(*args: Any, **kwargs: Any) -> None:
        books.notes[f"not written: {what}"] += 1

    return save
