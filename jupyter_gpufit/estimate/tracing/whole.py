"""Where torch itself would hide from our modes what a GPU does, or show what it does not do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ...cuda.stand_in.shim import CudaShim
from ...devices.card import Card
from .books import Books
from .shapes_told import kernels

aten = torch.ops.aten
_ASKED = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
_NOT_THERE = ("torch.overrides", "torch._C")
# Composite in general, with a fused kernel on CUDA. Taken apart above us they show temporaries that a GPU never
# allocates: EfficientNet was 41 % too high. These are all of 2.13 that also have an explicit CPU kernel.
_FUSED = ("silu_backward", "mish_backward", "native_channel_shuffle")


def begin(books: Books) -> list[Any]:
    """Put the parts in place. What is returned must be kept alive."""
    _keep_modes_in_wrappers()
    _see_backward(books)
    return [_keep_whole(), _tell_numbers(books)]


def _tell_numbers(books: Books) -> torch.library.Library:
    """`torch.Tensor([loss])` and `x.new_tensor([loss])` ask each for its number with all modes turned off."""
    library = torch.library.Library("aten", "IMPL", "PrivateUse1")
    library.impl("_local_scalar_dense", books.number_of)
    return library


def _keep_modes_in_wrappers() -> None:
    """Torch's Python wrappers pop the function mode: attention modules and recomputation would escape it.

    The price: results of torch's Python functions are not of a user's own tensor class. What is no tensor, as those by
    which torch.fx writes down what a function does, answers for itself.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith("torch") and not name.startswith(_NOT_THERE):
            for asked in _ASKED:
                if asked in getattr(module, "__dict__", ()):
                    setattr(module, asked, _answers_among if asked == _ASKED[0] else _answer)


def _answers_among(args: Iterable[Any]) -> bool:
    return any(not isinstance(one, torch.Tensor) and hasattr(type(one), "__torch_function__") for one in args)


def _answer(*args: Any) -> bool:
    return _answers_among(args)


def _see_backward(books: Books) -> None:
    real: Callable[..., Any] = torch.autograd._engine_run_backward  # type: ignore[attr-defined]
    card: Card = books.card
    replaced = kernels(books)

    def backward(*args: Any, **kwargs: Any) -> Any:
        was, first = books.phase, len(books.entries)
        if was != "backward":
            books.backward_begins()
        books.phase = "backward"
        try:
            with CudaShim(card, replaced):  # popped before the engine starts, and recomputation needs it
                return real(*args, **kwargs)
        finally:
            books.phase = was
            if was != "backward":
                books.backward_ended(first)

    for module in (torch.autograd, torch.autograd.graph):
        if hasattr(module, "_engine_run_backward"):
            module._engine_run_backward = backward  # type: ignore[attr-defined]


def _keep_whole() -> Any:
    library = torch.library.Library("aten", "IMPL")

    def never(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("only its shapes are computed")

    for name in _FUSED:
        library.impl(getattr(aten, name).default, never, "PrivateUse1")
    return library
