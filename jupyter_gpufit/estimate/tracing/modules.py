"""Modules go to the stand-in, and their optimizers follow.

A parameter cannot keep its identity there (`swap_tensors` and `p.data = fake` both refuse), so a module gets new ones.
Parameters that the cell itself makes on the CPU become fake at once: a model of 13B needs no memory.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import UninitializedParameter
from torch.optim import Optimizer

from ...cuda.stand_in.device import STAND_IN
from ..reckoning.record import Kind
from .arrived import LATE
from .books import Books

_SMALL = 64 << 10  # bytes; smaller ones stay real, which costs nothing and lets CPU code read them


class Moves:
    """Replaces nn.Module's ways to a device."""

    def __init__(self, books: Books, optimizers: Callable[[], list[Optimizer]]) -> None:
        self._books, self._optimizers = books, optimizers
        self._moved: dict[int, tuple[torch.Tensor, nn.Parameter]] = {}  # by the old one's id: old, new
        self._late: weakref.WeakKeyDictionary[nn.Module, Callable[[torch.Tensor], torch.Tensor]]
        self._late = weakref.WeakKeyDictionary()  # moved before their shape was known
        self._faked: dict[int, tuple[weakref.ref[Any], nn.Parameter]] = {}

    def begin(self) -> None:
        to_real, register_real, buffer_real = nn.Module.to, nn.Module.register_parameter, nn.Module.register_buffer
        moves = self

        def to(self: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
            before = len(moves._moved)
            to_real(self, *args, **kwargs)
            if len(moves._moved) > before:
                moves._follow()
            return self

        def cuda(self: nn.Module, device: Any = None) -> nn.Module:
            return to(self, "cuda")

        def register_parameter(self: nn.Module, name: str, param: nn.Parameter | None) -> None:
            register_real(self, name, param if param is None else moves._made(param))

        def register_buffer(self: nn.Module, name: str, tensor: Any, *args: Any, **kwargs: Any) -> None:
            buffer_real(self, name, tensor, *args, **kwargs)
            moves._books.label(tensor, "buffer")

        has_uninitialized: Any = LazyModuleMixin.has_uninitialized_params

        def has_none(self: Any) -> bool:
            """Asked by torch when it has given them their shape. Its own hook may have come from an earlier cell."""
            if has_uninitialized(self):
                return True
            fn = moves._late.pop(self, None)
            if [vars(p).pop(LATE) for p in self._parameters.values() if p is not None and LATE in vars(p)]:
                fn = fn or _to_device
            if fn is not None:
                moves._apply(self, fn, recurse=False)
                moves._follow()
            return False

        LazyModuleMixin.has_uninitialized_params = has_none  # type: ignore[method-assign]
        nn.Module._apply = lambda self, fn, recurse=True: moves._apply(self, fn, recurse)  # type: ignore[method-assign]
        nn.Module.to = to  # type: ignore[assignment]
        nn.Module.cuda = cuda  # type: ignore[assignment]
        nn.Module.register_parameter = register_parameter  # type: ignore[method-assign]
        nn.Module.register_buffer = register_buffer  # type: ignore[method-assign]

    def _apply(self, module: Any, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool) -> Any:
        for child in module.children() if recurse else ():
            child._apply(fn)
        # A class may have put another kind of table there, with parameters of its parts (EvolveGCN).
        for name, p in module._parameters.items() if hasattr(module._parameters, "items") else ():
            if isinstance(p, UninitializedParameter):
                self._late.setdefault(module, fn)
            elif p is not None:
                module._parameters[name] = self._move(p, fn)
        with self._kind("buffer"):
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    module._buffers[name] = fn(buffer)
        return module

    def _move(self, p: nn.Parameter, fn: Callable[[torch.Tensor], torch.Tensor]) -> nn.Parameter:
        known = self._moved.get(id(p))
        if known is not None and known[0] is p:
            return known[1]  # tied weights stay tied
        with torch.no_grad(), self._kind("parameter"):
            data = fn(p)
        if data is p:
            return p
        new = _like(p, data.detach())
        if p.grad is not None:
            with self._kind("gradient"):
                new.grad = fn(p.grad.detach())
        self._moved[id(p)] = (p, new)
        return new

    def _made(self, p: nn.Parameter) -> nn.Parameter:
        """What a module registers in place of a parameter."""
        self._books.label(p, "parameter")
        if type(p) is not nn.Parameter or p.device.type != "cpu" or p.numel() * p.element_size() <= _SMALL:
            return p
        known = self._faked.get(id(p))
        if known is not None and known[0]() is p:
            return known[1]
        with self._books.fake:
            fake = torch.empty_strided(p.shape, p.stride(), dtype=p.dtype, device="cpu")
        new = _like(p, fake)
        self._faked[id(p)] = (weakref.ref(p), new)
        return new

    def _follow(self) -> None:
        """Let the optimizers that were made before a move hold the parameters that came of it."""
        for optimizer in self._optimizers():
            for group in optimizer.param_groups:
                group["params"] = [self._now(p) for p in group["params"]]
            for p in [p for p in optimizer.state if self._now(p) is not p]:
                optimizer.state[self._now(p)] = optimizer.state.pop(p)

    def _now(self, p: Any) -> Any:
        known = self._moved.get(id(p))
        return self._now(known[1]) if known is not None and known[0] is p else p

    @contextmanager
    def _kind(self, kind: Kind) -> Iterator[None]:
        was, self._books.kind = self._books.kind, kind
        try:
            yield
        finally:
            self._books.kind = was


def _like(p: nn.Parameter, data: torch.Tensor) -> nn.Parameter:
    """A parameter of other data with what users hung on the old one."""
    new = nn.Parameter(data, p.requires_grad)
    # What fakes keep there themselves is the new one's own: its device, among others.
    new.__dict__.update((name, value) for name, value in p.__dict__.items() if name not in new.__dict__)
    for hooks in ("_backward_hooks", "_post_accumulate_grad_hooks"):
        if (found := getattr(p, hooks, None)) is not None:
            setattr(new, hooks, found)
    return new


def _to_device(t: torch.Tensor) -> torch.Tensor:
    return t.to(torch.device(STAND_IN, 0))
