"""Recompute: a block keeps what it was given, and is computed again in backward. Exact.

Nothing is put on a module: `nn.Module._call_impl` is replaced while the cell runs, so that what is pickled in the
middle of a loop knows no plan. What a second run must not do twice is kept from it: a BatchNorm's running statistics
are put aside, dropout draws the same numbers again, autocast is as it was (torch.utils.checkpoint does both).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from ..plan import Facts, Notch
from ..units import looks_of
from .again import calls_through, computed_again
from .blocks import blocks_of

NAME = "recompute"
EXACT = True
STEEP = False
REPLACES: tuple[str, ...] = ()

_Blocks = Mapping[str, Sequence[str]]  # paths, by the looks of their model


def notches(facts: Facts) -> list[Notch]:
    """With one block, with two, and so on: those that ran first, since backward comes to them last, with most room."""
    blocks = blocks_of(facts.parts)
    count = len(blocks)
    found = []
    told: dict[str, list[str]] = {}
    for number, block in enumerate(blocks, 1):
        told.setdefault(block.model, []).append(block.path)
        of = f"{number} of {count} blocks" if count > 1 else "its one block"
        found.append(Notch({model: tuple(paths) for model, paths in told.items()}, f"recomputing {of}"))
    return found


def why_not(facts: Facts) -> str:
    """Why there is no notch."""
    if not facts.parts:
        return "no model was seen to run"
    refused = [part for part in facts.parts if part.why_not]
    if refused and blocks_of([replace(part, why_not="") for part in facts.parts]):  # else it would be of no use
        worst = max(refused, key=lambda part: part.kept)
        return f"{worst.name} cannot run twice: {worst.why_not}"
    return "no part of the model keeps much more than it hands on"


@contextmanager
def around(part: _Blocks) -> Iterator[None]:
    """Compute these blocks again in backward, whatever calls them."""
    with calls_through(lambda real: _Calls(part, real).function()):
        yield


class _Calls(threading.local):
    """The calls of modules in one thread."""

    def __init__(self, blocks: _Blocks, real: Callable[..., Any]) -> None:
        self.blocks, self.real = blocks, real
        self.inside = False  # a model's call
        self.chosen: set[int] = set()  # ids of the modules that are its blocks
        self.again = False  # a block's, which is not cut any further

    def function(self) -> Callable[..., Any]:
        def _call_impl(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if not self.inside:
                return self._model(module, args, kwargs)
            if id(module) in self.chosen and not self.again and torch.is_grad_enabled():
                return self._block(module, args, kwargs)
            return self.real(module, *args, **kwargs)

        return _call_impl

    def _model(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        paths = self.blocks.get(looks_of(module), ())
        self.chosen = {id(block) for path in paths if (block := _at(module, path)) is not None}
        self.inside = True
        try:
            return self.real(module, *args, **kwargs)
        finally:
            self.inside = False

    def _block(self, block: nn.Module, args: Any, kwargs: Any) -> Any:
        return computed_again(block, args, kwargs, real=self.real, within=self._within)

    @contextmanager
    def _within(self) -> Iterator[None]:
        """A block's run; the second one may come in another thread, or in the middle of another model's call."""
        before = self.inside, self.again
        self.inside = self.again = True
        try:
            yield
        finally:
            self.inside, self.again = before


def _at(model: nn.Module, path: str) -> nn.Module | None:
    """The module there; a model may have changed its modules."""
    try:
        return model.get_submodule(path)
    except AttributeError:
        return None
