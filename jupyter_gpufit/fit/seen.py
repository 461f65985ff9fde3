"""What a trial run notes of a model's modules: in which order they ran, what each hands on, why it must not run twice.

A second run does again what the first one did beside its result. What can be put back for it bars nothing: attributes,
lists and plain objects that a forward changed, also those that it is given (a cache of keys and values), Python's and
NumPy's random numbers (rungs/belongings.py). Seen are: buffers, and what it was given, changed in place; objects of
another kind, or too many; variables of the notebook that it sets, adds to or draws from; hooks; generators of torch's;
and `print`. What compiled code does beside its result is not.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.utils._pytree import tree_leaves

from .plan import BY_THE_COMPILER
from .rungs.again import Call, calls_through
from .rungs.as_then import has_hooks
from .rungs.belongings import Belongings, of_module, state_in_brief
from .units import looks_of

_SIZED = (list, dict, set)
_LOOKS = 2  # calls of a module that are looked at; the second counts, since the first may fill a cache
_OF_TORCH = "torch."
_IN_A_TRANSFORM = "it is called inside of grad, vmap or another transform of torch.func"  # no hook sees what it keeps
_unheard = torch._C.DisableTorchFunction  # what looks here is no part of the forward, which others may listen to


@dataclass
class Seen:
    """A module that ran."""

    module: nn.Module
    model: str
    path: str
    order: int
    barred: str = ""  # why it must not run twice, by what it is
    hands_on: int = 0  # bytes
    changes: str = ""  # the same, by what its last call did
    alone: bool = False  # that is so of itself, and not of what it is in
    calls: int = 0
    batch: int = 0  # samples of its first call

    @property
    def row(self) -> tuple[str, str, int, int, str, int, bool, bool]:
        """As it is told; see record.py: RanModule."""
        by_batch = isinstance(self.module, _BatchNorm)
        why_not = self.barred or self.changes
        alone = self.alone and not self.barred
        return self.model, self.path, self.order, self.hands_on, why_not, self.batch, by_batch, alone


@dataclass(frozen=True)
class _Before:
    """How things stood when a module was called."""

    seen: Seen
    buffers: dict[str, tuple[torch.Tensor, int]]
    belongings: Belongings
    globals: dict[str, Any]  # of the module that its forward was written in
    versions: list[tuple[torch.Tensor, int]]  # of what it has or was given


class Modules:
    """All that ran so far."""

    def __init__(self) -> None:
        self.found: dict[int, Seen] = {}  # by the module's id
        self._stack: list[_Before | None] = []
        self._where: dict[int, tuple[str, str]] = {}  # by the module's id: its model's looks, and its path there
        self._thread = threading.get_ident()

    def begin(self) -> None:
        """Note from now on; for a process of its own."""
        self._for_good = calls_through(self._noted)
        self._for_good.__enter__()

    def _noted(self, real: Call) -> Call:
        def _call_impl(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            output = None
            self._enter(module, args, kwargs)
            try:
                output = real(module, *args, **kwargs)
            finally:
                self._leave(module, args, kwargs, output)
            return output

        return _call_impl

    def _enter(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if threading.get_ident() != self._thread:
            return
        if not self._stack:
            looks = looks_of(module)
            self._where = {id(one): (looks, path) for path, one in module.named_modules()}
        with _unheard():
            self._stack.append(self._before(module, args, kwargs))

    def _before(self, module: nn.Module, args: Any, kwargs: Any) -> _Before | None:
        seen = self.found.get(id(module))
        if seen is None:
            if id(module) not in self._where:  # made in this very call
                return None
            seen = self.found[id(module)] = Seen(module, *self._where[id(module)], len(self.found))
            seen.barred, seen.batch = _by_its_looks(module), _batch_of((args, kwargs))
        seen.calls += 1
        if torch._C._are_functorch_transforms_active():
            seen.barred = seen.barred or _IN_A_TRANSFORM
            return None
        if seen.calls > _LOOKS:
            return None
        owned = [one for part in module.modules() for one in of_module(part)]  # all that a second run needs; see AsThen
        belongings = Belongings((*args, *kwargs.values(), *owned))
        given = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor) and not t.is_inference()]
        versions = [(t, t._version) for t in (*given, *belongings.tensors)]
        return _Before(seen, _buffers(module), belongings, dict(_globals(module)), versions)

    def _leave(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if threading.get_ident() != self._thread or not self._stack:
            return
        before = self._stack.pop()
        if before is None or before.seen.module is not module:
            return
        with _unheard():
            before.seen.hands_on = max(before.seen.hands_on, _bytes_of(output))  # the last batch may be a small one
            before.seen.changes, before.seen.alone = _changed(module, before)


def _buffers(module: nn.Module) -> dict[str, tuple[torch.Tensor, int]]:
    """What a forward could change in place: but for a norm's statistics, which a second run leaves alone."""
    if isinstance(module, _NormBase):
        return {}
    buffers = module._buffers.items()
    return {name: (one, one._version) for name, one in buffers if one is not None and not one.is_inference()}


def _globals(module: nn.Module) -> Iterator[tuple[str, Any]]:
    """What its forward, and functions that were written beside it, can set or add to."""
    if (forward := _forward(module)) is not None:
        for name, value in list(forward.__globals__.items()):
            if not name.startswith("_"):
                length = len(value) if type(value) in _SIZED else None
                yield name, (id(value), length, state_in_brief(value))


def _forward(module: nn.Module) -> FunctionType | None:
    """As it is written in Python, and not by torch; a class of TorchScript's has none."""
    forward = getattr(type(module), "forward", None)
    forward = getattr(forward, "__wrapped__", forward)
    if isinstance(forward, FunctionType) and not str(forward.__module__).startswith(_OF_TORCH):
        return forward
    return None


def _changed(module: nn.Module, before: _Before) -> tuple[str, bool]:
    """What bars a second run of it, and whether that is so of itself alone.

    What it is given may have been made in what it is in, as by a convolution before an activation in place; whether
    that one changes what it is given itself is seen there. Only what gradients go through was surely made by a forward.
    """
    if names := [name for name, (buffer, version) in before.buffers.items() if buffer._version != version]:
        return f"its forward changes buffer {names[0]}", False
    if names := [name for name, value in _globals(module) if before.globals.get(name, value) != value]:
        return f"its forward changes {names[0]}", False
    if changed := [t for t, version in before.versions if t._version != version]:
        return "its forward changes in place what it has or is given", all(t.grad_fn is not None for t in changed)
    if not before.belongings.is_whole:
        return "it has or is given too many objects to look at", False
    return ("", False) if before.belongings.ran() else ("its forward changes an object that cannot be put back", False)


def _by_its_looks(module: nn.Module) -> str:
    if isinstance(module, torch.jit.ScriptModule):
        return "it is compiled by TorchScript"
    if module._compiled_call_impl is not None or type(module).__module__.startswith("torch._dynamo"):
        return BY_THE_COMPILER
    if has_hooks(module):
        return "it has hooks"
    if any(isinstance(value, torch.Generator) for value in vars(module).values()):
        return "it has a generator of its own"
    forward = _forward(module)
    return "" if forward is None else _by_its_code(forward.__code__)


def _by_its_code(code: CodeType) -> str:
    import dis

    for one in dis.get_instructions(code):
        if one.opname == "STORE_GLOBAL" or (one.opname == "STORE_DEREF" and one.argval in code.co_freevars):
            return f"its forward sets {one.argval}"
        if one.opname in ("LOAD_GLOBAL", "LOAD_NAME") and one.argval == "print":
            return "its forward prints"
    return ""


def _batch_of(given: Any) -> int:
    return next((t.shape[0] for t in tree_leaves(given) if isinstance(t, torch.Tensor) and t.dim()), 0)


def _bytes_of(output: Any) -> int:
    found = {id(t.untyped_storage()): t for t in tree_leaves(output) if isinstance(t, torch.Tensor)}
    return sum(t.untyped_storage().nbytes() for t in found.values())
