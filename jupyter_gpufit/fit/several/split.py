"""What optimizers keep, split over the ranks: each has an equal part of every large tensor of it, and steps that part.

The user's own optimizer steps, on views of its parameters; then the ranks hand each other what they have stepped, and
all have whole parameters again. What the cell sees of `optimizer.state` is whole: where it looks, the parts are put
together, and they part again at the next step. A checkpoint reads the others' parts onto the host (see Group.read), so
it is that of one device. Only for optimizers that take each number by itself (elementwise.py); others keep all.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import wraps
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary, ref

import torch
from torch.optim import Optimizer

from ...devices import sides
from .elementwise import is_elementwise
from .group import Group, PartGone, ShapesOnly
from .passages import BUCKET

LEAST = 4096  # numbers: of a smaller parameter each rank keeps all


@dataclass(eq=False)
class StatePart:
    """What this rank has of one parameter's state."""

    number: int  # the same on all ranks
    p: torch.Tensor
    own: slice
    each: int  # numbers of a part; the last one may have fewer
    values: dict[str, Any]

    def is_split(self, name: str) -> bool:
        value = self.values[name]
        return isinstance(value, torch.Tensor) and value.dim() == 1 and value.numel() == self.own.stop - self.own.start


class StateInParts(defaultdict[Any, Any]):
    """An optimizer's `state`: whoever looks has it whole."""

    def __init__(self, of: SplitOptimizer) -> None:
        super().__init__(dict)
        self.of = of

    def __reduce__(self) -> Any:
        """On the host: it is read while it is saved, and the device has no room for it."""
        return defaultdict, (dict,), None, None, iter(self.of.read().items())

    def __deepcopy__(self, memo: Any) -> Any:
        self.of.come_home()
        return copy.deepcopy(defaultdict(dict, self.items()), memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()


def _looking(name: str) -> Callable[..., Any]:
    real = getattr(defaultdict, name)

    @wraps(real)
    def look(self: StateInParts, *args: Any, **kwargs: Any) -> Any:
        self.of.come_home()
        return real(self, *args, **kwargs)

    return look


for _name in (
    "__getitem__ __setitem__ __delitem__ __iter__ __len__ __contains__ __eq__ __repr__ keys values items get pop"
    " popitem setdefault update clear copy __copy__ __or__ __ior__"
).split():
    setattr(StateInParts, _name, _looking(_name))


@dataclass(eq=False)
class SplitOptimizer:
    """One optimizer's parts."""

    group: Group
    ref: Callable[[], Optimizer | None]  # weak
    parts: MutableMapping[int, StatePart]  # of all optimizers of this run
    numbers: Iterator[int]
    own: dict[torch.Tensor, StatePart] = field(default_factory=dict)
    state: StateInParts = field(init=False)
    is_home: bool = True
    _lists: list[tuple[dict[str, Any], list[torch.Tensor]]] = field(default_factory=list)  # in a step
    _views: dict[torch.Tensor, torch.Tensor] = field(default_factory=dict)
    _read: dict[Any, Any] | None = None

    def __post_init__(self) -> None:
        self.state = StateInParts(self)
        self._dict: Any = super(StateInParts, self.state)  # past what looks

    @property
    def optimizer(self) -> Optimizer:
        found = self.ref()
        assert found is not None
        return found

    @property
    def steps(self) -> bool:
        """Whether it is in a step."""
        return bool(self._lists)

    # A step

    def begin(self) -> None:
        """Give the optimizer this rank's part of its parameters, in their places."""
        optimizer, whole = self.optimizer, self._taken()
        self._read = None
        state: defaultdict[Any, Any] = defaultdict(dict)
        for group in optimizer.param_groups:
            given = [self._given(p, whole, state) for p in group["params"]]
            self._lists.append((group, group["params"]))
            group["params"] = given
        state.update(whole)  # of parameters that are not in its groups any more
        optimizer.state = state

    def end(self, *, alone: bool = False) -> None:
        """Put back the cell's own parameters, and have all of each; `alone`: it was left midway."""
        optimizer, state = self.optimizer, self.optimizer.state
        for group, params in self._lists:
            group["params"] = params
        self._lists = []
        for p, view in self._views.items():
            if view in state:
                self.own[p].values = state.pop(view)
        for p, values in state.items():
            self._dict.__setitem__(p, values)
        self.is_home = False
        optimizer.state = self.state
        if not alone:
            self._hand_round([*self._views])
        self._views = {}

    def _taken(self) -> dict[Any, Any]:
        """What is whole: what the cell has looked at or put there, or what was too small to be split."""
        now = self.optimizer.state
        found = dict(self._dict.items()) if now is self.state else dict(now)
        if now is not self.state:  # the cell has loaded another one
            self.own.clear()
        self._dict.clear()
        return found

    def _given(self, p: torch.Tensor, whole: dict[Any, Any], state: dict[Any, Any]) -> torch.Tensor:
        if not _can_split(p) or (p.grad is not None and p.grad.is_sparse):
            if p in whole:
                state[p] = whole.pop(p)
            return p
        part = self.own.get(p) or self._new(p)
        if (values := whole.pop(p, None)) is not None:
            part.values = {name: _cut(p, part, value) for name, value in values.items()}
        with torch.no_grad():
            view = p.detach().view(-1)[part.own]
            view.grad = None if p.grad is None else p.grad.detach().contiguous().view(-1)[part.own]
        if part.values:
            state[view] = part.values
        self._views[p] = view
        return view

    def _new(self, p: torch.Tensor) -> StatePart:
        each, n = -(-p.numel() // self.group.size), p.numel()
        first = min(self.group.rank * each, n)
        part = StatePart(next(self.numbers), p, slice(first, min(first + each, n)), each, {})
        self.parts[part.number] = self.own[p] = part
        return part

    def _hand_round(self, params: list[torch.Tensor]) -> None:
        """Each rank's part of each parameter, so many bytes at once."""
        with torch.no_grad():
            for bucket in _buckets([p for p in params if p.grad is not None]):
                sent = torch.cat([self._padded(p) for p in bucket])
                for rank, found in enumerate(self.group.all_gather(sent)):
                    at = 0
                    for p in bucket:
                        each = self.own[p].each
                        if rank != self.group.rank:
                            there = p.view(-1)[rank * each : (rank + 1) * each]
                            there.copy_(found[at : at + there.numel()])
                        at += each

    def _padded(self, p: torch.Tensor) -> torch.Tensor:
        part = self.own[p]
        view = p.view(-1)[part.own]
        return torch.cat([view, view.new_zeros(part.each - view.numel())]) if view.numel() < part.each else view

    # Whole again

    def come_home(self) -> None:
        """Have all of the state on this device, until the next step."""
        if self.is_home or self._lists:
            return
        whole = self._all(on_host=False)
        self.is_home = True
        self._dict.clear()
        for p, values in whole.items():
            self._dict.__setitem__(p, values)
        self._read = None

    def leave(self, *, ends: bool) -> None:
        """Nobody else takes part from now on; `ends`: nor does the device, which may have no room for all of it."""
        whole: dict[Any, Any] = {}
        with suppress(PartGone):  # with a rank that was lost: then it is as of a new one
            if not ends:
                self.come_home()
            whole = self.read()
        self.optimizer.state = defaultdict(dict, whole)
        self.own.clear()
        self._dict.clear()

    def kept(self) -> list[dict[str, Any]]:
        return [*self._dict.values(), *([] if self.is_home else [part.values for part in self.own.values()])]

    def read(self) -> dict[Any, Any]:
        """All of it, the parts on the host."""
        if self.is_home:
            return dict(self._dict.items())
        if self._read is None:
            self._read = self._all(on_host=True)
        return self._read

    def _all(self, *, on_host: bool) -> dict[Any, Any]:
        """In the order that one device would have made it."""
        found = dict(self._dict.items())
        for p, part in self.own.items():
            if part.values:
                found[p] = {name: self._whole(p, part, name, on_host=on_host) for name in part.values}
        order = [p for group in self.optimizer.param_groups for p in group["params"] if p in found]
        return {p: found[p] for p in order} | found

    def _whole(self, p: torch.Tensor, part: StatePart, name: str, *, on_host: bool) -> Any:
        value = part.values[name]
        if not part.is_split(name):
            return value
        with torch.no_grad():
            if isinstance(self.group, ShapesOnly):
                return torch.empty(p.shape, dtype=value.dtype, device="cpu" if on_host else value.device)
            with torch._C.DisableTorchFunction():
                host = torch.empty(p.numel(), dtype=value.dtype, device="cpu")
                for rank in range(self.group.size):
                    there = host[rank * part.each : (rank + 1) * part.each]
                    if rank == self.group.rank:
                        there.copy_(value)
                    elif there.numel():
                        self.group.read(rank, part.number, name, there)
                host = host.view(p.shape)
                if value.device.type != "cpu" and on_host:
                    return _away(host, value.device)
                made = host.to(value.device)
                if sides.on_device(value.untyped_storage()):
                    sides.note(made)
                return made


def kept_here(optimizer: Optimizer) -> list[dict[str, Any]]:
    """What it keeps for each parameter on this device, which is a part where it is split."""
    state = optimizer.state
    return state.of.kept() if isinstance(state, StateInParts) else [*state.values()]


def _away(host: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A tensor of the device whose bytes are on the host."""
    made = torch.empty(host.shape, dtype=host.dtype, device=device)
    storage = made.untyped_storage()
    storage.resize_(0)
    setattr(storage, sides.AWAY, lambda: host.untyped_storage())
    return made


def _can_split(p: torch.Tensor) -> bool:
    return p.numel() >= LEAST and p.is_contiguous() and p.layout is torch.strided and p.requires_grad


def _cut(p: torch.Tensor, part: StatePart, value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.shape == p.shape:
        return value.detach().contiguous().view(-1)[part.own].clone()
    return value


def _buckets(params: list[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    bucket: list[torch.Tensor] = []
    for p in params:
        looks = (p.dtype, p.device)
        if bucket and (
            looks != (bucket[0].dtype, bucket[0].device) or sum(one.nbytes for one in bucket) + p.nbytes > BUCKET
        ):
            yield bucket
            bucket = []
        bucket.append(p)
    if bucket:
        yield bucket


class SplitStates:
    """Of all optimizers of a run; its `before` and `after` are called around each step."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._parts: WeakValueDictionary[int, StatePart] = WeakValueDictionary()
        self._numbers = count()
        self._known: WeakKeyDictionary[Optimizer, SplitOptimizer | None] = WeakKeyDictionary()
        group.offer(self._find)

    def before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._group.size == 1 or any(map(callable, (*args, *kwargs.values()))):
            return
        if optimizer not in self._known:
            splits = is_elementwise(optimizer)
            made = SplitOptimizer(self._group, ref(optimizer), self._parts, self._numbers)
            self._known[optimizer] = made if splits else None
        split = self._known[optimizer]
        if split is not None:
            self._group.all_reduce(torch.zeros(1))  # whoever reads of the last step has done so
            split.begin()

    def after(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        split = self._known.get(optimizer)
        if split is not None and split.steps:
            split.end()

    def leave(self, *, ends: bool = False) -> None:
        """The run ends here, or goes on alone: everything whole, also where a step was left midway."""
        for split in list(self._known.values()):
            if split is not None:
                if split.steps:
                    split.end(alone=True)
                split.leave(ends=ends)
        self._known.clear()

    def _find(self, number: int, name: str) -> torch.Tensor | None:
        part = self._parts.get(number)
        return part.values.get(name) if part is not None else None
