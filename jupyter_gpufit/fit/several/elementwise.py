"""Whether an optimizer's step of a part of a parameter is that part of its step: tried, with its own settings.

In double precision and in that of its parameters; with matrices like its own, gradients of several sizes, and some
that leave a weight's norm alone. Each half is stepped by an optimizer of its own, beside a small parameter that both
have: whatever goes over all parameters comes to other numbers there. In doubt it does not, and keeps all of its state.
What is not seen: what begins after more steps than are tried.
"""

from __future__ import annotations

import copy
import math
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Number
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim import optimizer as hooked
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_leaves

STEPS = 12  # some begin with others than those that follow
SIZES = (1.0, 1e-3, 1e3)  # of gradients, in turn: some are clipped
SHAPES = ((4, 6), (64, 64))
SMALL = (5,)  # a parameter that is not split
MOST = 4096  # numbers of a parameter
KINDS = 6  # shapes
LONGEST_NAME = 56  # bytes of a name in a state, by which the ranks read it
MANY = 1000  # numbers, of which a processor computes the last few in another way than the others
_NEAR = {torch.double: 1e-11, torch.float: 1e-4}
_OWN = ("state", "param_groups", "step")


def is_elementwise(optimizer: Optimizer) -> bool:
    """Of one that asks nothing else of its parameters than their numbers and gradients, one by one."""
    if has_step_hooks(optimizer) or _has_more(optimizer):
        return False
    groups = _kinds(optimizer)
    with no_dispatch(), torch._C.DisableTorchFunction(), torch.random.fork_rng(devices=[]), _nobody_hears(), _alone():
        try:
            dtypes = {p.dtype for group in optimizer.param_groups for p in group["params"]}
            return bool(groups) and all(_in(dtype, optimizer, groups) for dtype in (torch.double, *dtypes))
        except Exception:  # it is made for something else
            return False


def has_step_hooks(optimizer: Optimizer) -> bool:
    """The cell's own, which would see a part of each parameter."""
    return bool(optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks)


def can_be_cut(p: torch.Tensor, values: Any) -> bool:
    """A state that has a number for each one of its parameter, or one for all."""
    return isinstance(values, dict) and all(_is_name(name) and _fits(p, one) for name, one in values.items())


def _is_name(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name.encode(errors="replace")) <= LONGEST_NAME


def _fits(p: torch.Tensor, value: object) -> bool:
    if isinstance(value, torch.Tensor):
        return type(value) is torch.Tensor and value.layout is torch.strided and value.shape in ((), p.shape)
    return value is None or isinstance(value, Number)


def _has_more(optimizer: Optimizer) -> bool:
    """It has parameters in another place, too; a copy of it would step those."""
    own = {name: value for name, value in vars(optimizer).items() if name not in (*_OWN, "defaults")}
    settings = [value for group in optimizer.param_groups for name, value in group.items() if name != "params"]
    return _reaches(own, set(), 5) or _reaches([settings, optimizer.defaults], set(), 5, numbers=True)


def _reaches(value: Any, seen: set[int], depth: int, *, numbers: bool = False) -> bool:
    """An optimizer, a module or a tensor; `numbers`: one number may come as a tensor."""
    if isinstance(value, torch.Tensor):
        return not (numbers and not value.dim() and not value.requires_grad)
    if isinstance(value, (Optimizer, nn.Module)):
        return True
    if id(value) in seen or isinstance(value, (type, str, bytes, int, float)):
        return False
    seen.add(id(value))
    if isinstance(value, dict):
        inside = [*value.keys(), *value.values()]
    elif isinstance(value, (list, tuple, set, frozenset)):
        inside = [*value]
    else:
        cells = [cell for cell in getattr(value, "__closure__", None) or () if cell != type(cell)()]
        inside = [*getattr(value, "__dict__", {}).values(), *(cell.cell_contents for cell in cells)]
        inside.append(getattr(value, "__self__", None))
    if not depth:
        return bool(inside)
    return any(_reaches(one, seen, depth - 1, numbers=numbers) for one in inside)


@contextmanager
def _alone() -> Iterator[None]:
    """In one thread: a trial run is a fork, in which torch's others are missing and would be waited for."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def _nobody_hears() -> Iterator[None]:
    """No hook of others on each step; and who steps within a step does not pass, since that would be taken for two."""

    def refuse(*_: Any) -> None:
        raise NotImplementedError

    before = hooked._global_optimizer_pre_hooks, hooked._global_optimizer_post_hooks
    hooked._global_optimizer_pre_hooks = OrderedDict({0: refuse})  # not emptied: we are called out of one of them
    hooked._global_optimizer_post_hooks = OrderedDict()
    try:
        yield
    finally:
        hooked._global_optimizer_pre_hooks, hooked._global_optimizer_post_hooks = before


@dataclass(frozen=True)
class _Kind:
    """Groups of parameters with like settings."""

    settings: dict[str, Any]
    shapes: list[tuple[int, ...]]


def _kinds(optimizer: Optimizer) -> list[_Kind]:
    """Those with other settings than another group's; how large a number is does not count, but whether it is 0."""
    found: dict[str, _Kind] = {}
    for group in optimizer.param_groups:
        settings = {name: value for name, value in group.items() if name not in ("params", "param_names")}
        if isinstance(lr := settings.get("lr"), int | float | torch.Tensor) and not lr:  # as a warm-up begins
            settings["lr"] = lr + 1e-3
        key = repr([(name, bool(one) if type(one) is float else one) for name, one in sorted(settings.items())])
        kind = found.setdefault(key, _Kind(settings, [*SHAPES]))
        for p in group["params"]:
            shape = _capped(p.shape)
            if len(kind.shapes) < KINDS and shape not in kind.shapes and math.prod(shape) > 1:
                kind.shapes.append(shape)
    return [*found.values()]


def _capped(shape: torch.Size) -> tuple[int, ...]:
    sides = [*shape]
    while math.prod(sides) > MOST:
        largest = sides.index(max(sides))
        sides[largest] = -(-sides[largest] // 2)
    return tuple(sides)


def _in(dtype: torch.dtype, optimizer: Optimizer, kinds: list[_Kind]) -> bool:
    drawn = torch.Generator().manual_seed(0)
    large = [[torch.randn(shape, generator=drawn).to(dtype) for shape in kind.shapes] for kind in kinds]
    small = [torch.randn(SMALL, generator=drawn).to(dtype) for _ in kinds]
    whole = _Tried(optimizer, kinds, [[one.clone() for one in theirs] for theirs in large], small)
    first = _Tried(optimizer, kinds, [[_half(one, 0) for one in theirs] for theirs in large], small)
    last = _Tried(optimizer, kinds, [[_half(one, 1) for one in theirs] for theirs in large], small)
    for number in range(STEPS):
        size = SIZES[number % len(SIZES)]
        grads = [[_gradient(p, number, drawn) * size for p in theirs] for theirs in whole.large]
        beside = [torch.randn(SMALL, generator=drawn).to(dtype) * size for _ in kinds]
        whole.step(grads, beside)
        for which, half in enumerate((first, last)):
            half.step([[_half(one, which) for one in theirs] for theirs in grads], beside)
    moved = all(not torch.equal(p, was) for p, was in zip(whole.all_large, sum(large, []), strict=True))
    if not moved or not all(one.keeps_like() for one in (whole, first, last)):
        return False
    return all(_same(whole.looks(which), half.looks(None), dtype) for which, half in enumerate((first, last)))


def _gradient(p: torch.Tensor, number: int, drawn: torch.Generator) -> torch.Tensor:
    """Each second one has no part along the weights, nor along a row of them: as before a norm."""
    grad = torch.randn(p.shape, generator=drawn).to(p.dtype)
    if number % 2:
        rows, along = grad.view(p.shape[0], -1) if p.dim() > 1 else grad.view(1, -1), p.view(grad.shape)
        along = along.view(rows.shape)
        rows -= (rows * along).sum(1, keepdim=True) / along.square().sum(1, keepdim=True).clamp(min=1e-12) * along
    return grad


def _half(t: torch.Tensor, which: int) -> torch.Tensor:
    flat, at = t.detach().reshape(-1), t.numel() * 2 // 5
    return (flat[at:] if which else flat[:at]).clone()


class _Tried:
    """A copy of it, with other parameters."""

    def __init__(
        self, of: Optimizer, kinds: list[_Kind], large: list[list[torch.Tensor]], small: list[torch.Tensor]
    ) -> None:
        self.large, self.small = large, [one.clone() for one in small]
        self.all_large: list[torch.Tensor] = sum(large, [])
        self.made = object.__new__(type(of))
        self.made.__dict__ = copy.deepcopy({name: one for name, one in vars(of).items() if name not in _OWN})
        self.made.state = defaultdict(dict)
        self.made.param_groups = [
            {**copy.deepcopy(kind.settings), "params": [*theirs, beside]}
            for kind, theirs, beside in zip(kinds, large, self.small, strict=True)
        ]
        step: Callable[..., Any] = type(of).step
        self._step = step.__wrapped__ if getattr(step, "hooked", False) else step  # type: ignore[attr-defined]

    def step(self, grads: list[list[torch.Tensor]], beside: list[torch.Tensor]) -> None:
        for p, grad in zip([*self.all_large, *self.small], [*sum(grads, []), *beside], strict=True):
            p.grad = grad.clone()
        torch.manual_seed(0)
        self._step(self.made)

    def keeps_like(self) -> bool:
        """It keeps nothing but numbers for each number of a parameter, and one for all of it."""
        known = {id(p) for p in (*self.all_large, *self.small)}
        return all(id(p) in known and can_be_cut(p, values) for p, values in self.made.state.items())

    def looks(self, which: int | None) -> Any:
        """All that it has come to; `which`: of that half."""

        def part(p: torch.Tensor, t: Any) -> Any:
            return _half(t, which) if which is not None and isinstance(t, torch.Tensor) and t.shape == p.shape else t

        states = [{name: part(p, t) for name, t in self.made.state.get(p, {}).items()} for p in self.all_large]
        groups = [{name: one for name, one in group.items() if name != "params"} for group in self.made.param_groups]
        own = {name: one for name, one in vars(self.made).items() if name not in _OWN}
        of_small = [dict(self.made.state.get(p, {})) for p in self.small]
        return [part(p, p) for p in self.all_large], self.small, states, of_small, groups, own


def _same(one: Any, other: Any, dtype: torch.dtype) -> bool:
    mine, theirs = tree_leaves(one), tree_leaves(other)
    return len(mine) == len(theirs) and all(_alike(a, b, dtype) for a, b in zip(mine, theirs, strict=True))


def _alike(one: Any, other: Any, dtype: torch.dtype) -> bool:
    """But for rounding. In half precision that is as large as what is drawn for it: then only few may differ."""
    if isinstance(one, (torch.Tensor, int, float, complex)):
        a, b = torch.as_tensor(one), torch.as_tensor(other)
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if dtype in _NEAR:
            return torch.allclose(a, b, rtol=_NEAR[dtype], atol=_NEAR[dtype])
        few = a.numel() < MANY or bool((a != b).double().mean() < 0.05)
        return few and torch.allclose(a, b, rtol=0.1, atol=0.1)
    return type(one) is type(other)
