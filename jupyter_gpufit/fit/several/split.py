"""What optimizers keep, split over the ranks: each has an equal part of every large tensor of it, and steps that part.

The user's own optimizer steps, on views of its parameters; then the ranks hand each other what they have stepped, and
all have whole parameters again, but for those that are in parts themselves (shards.py). What the cell sees of
`optimizer.state` is whole: where it looks, the parts are put together, and they part again at the next step. A
checkpoint reads the others' parts onto the host (see Group.read), so it is that of one device. Only for optimizers that
take each number by itself (elementwise.py); others keep all.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import torch
from torch.optim import Optimizer

from ...devices import sides
from ...errors import PartGone
from .elementwise import can_be_cut, has_step_hooks
from .group import Group, ShapesOnly
from .passages import BUCKET
from .shard import LEAST, part_of
from .shards import Shards


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
    shards: Shards | None = None
    own: dict[torch.Tensor, StatePart] = field(default_factory=dict)
    state: StateInParts = field(init=False)
    is_home: bool = True
    _lists: list[tuple[dict[str, Any], list[torch.Tensor]]] = field(default_factory=list)  # in a step
    _views: dict[torch.Tensor, torch.Tensor] = field(default_factory=dict)
    _read: dict[Any, Any] | None = None
    _left: bool = False  # what was read is all there is

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
        optimizer = self.optimizer
        groups = [(group, group["params"]) for group in optimizer.param_groups]
        now, was_loaded = optimizer.state, optimizer.state is not self.state
        whole = dict(now) if was_loaded else dict(self._dict.items())
        own = {} if was_loaded else self.own
        given = {p: self._part(p, own) for _, params in groups for p in params if self._can_part(p, whole.get(p))}
        views = {p: _view(p, part, self.shards) for p, part in given.items()}
        # Nothing was changed until here, where memory may have run out.
        if was_loaded or self.is_home:  # what the cell has taken away is not there any more
            for part in own.values():
                part.values = {}
        self.own, self._views, self._read = own | given, views, None
        self._dict.clear()
        state: defaultdict[Any, Any] = defaultdict(dict)
        for _, params in groups:
            for p in params:
                self._give(p, whole, state)
        for group, params in groups:
            group["params"] = [views.get(p, p) for p in params]
        self._lists = groups
        state.update(whole)  # of parameters that are not in its groups any more
        optimizer.state = state

    def end(self, *, alone: bool = False) -> None:
        """Put back the cell's own parameters, and have all of each; `alone`: it was left midway."""
        optimizer, state = self.optimizer, self.optimizer.state
        for group, params in self._lists:
            group["params"] = params
        self._lists = []
        for p, view in self._views.items():
            self.own[p].values = state.pop(view, {})
        for p, values in state.items():
            self._dict.__setitem__(p, values)
        self.is_home = False
        optimizer.state = self.state
        views, self._views = self._views, {}
        stepped = [p for p, view in views.items() if view.grad is not None]
        shards = self.shards
        if not alone:
            self._hand_round([p for p in stepped if shards is None or shards.part(p) is None])
        if shards is not None:
            shards.stepped([p for p in stepped if shards.part(p) is not None], alone=alone)

    def _can_part(self, p: torch.Tensor, values: Any) -> bool:
        """Decided by what all ranks have alike."""
        return _can_split(p) and (values is None or can_be_cut(p, values))

    def must_come_home(self) -> bool:
        """Whether what it has in parts is wanted whole in the next step."""
        if self.is_home or self.optimizer.state is not self.state:
            return False
        return has_step_hooks(self.optimizer) or any(
            part.values and not self._can_part(p, None) for p, part in self.own.items()
        )

    def _give(self, p: torch.Tensor, whole: dict[Any, Any], state: defaultdict[Any, Any]) -> None:
        values = whole.pop(p, None)
        view = self._views.get(p)
        if view is None:
            if values is not None:
                state[p] = values
            return
        part = self.own[p]
        if values is not None:
            part.values = {name: _cut(p, part, value) for name, value in values.items()}
        if part.values:
            state[view] = part.values

    def _part(self, p: torch.Tensor, own: dict[torch.Tensor, StatePart]) -> StatePart:
        if p in own:
            return own[p]
        own_part, each = part_of(p, self.group)
        part = StatePart(next(self.numbers), p, own_part, each, {})
        self.parts[part.number] = part
        return part

    def _hand_round(self, params: list[torch.Tensor]) -> None:
        """Each rank's part of each parameter, so many bytes at once."""
        with torch.no_grad():
            for bucket in _buckets(params):
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
        kept = self._read if self._left else None
        whole = self._all(on_host=False) if kept is None else {p: _back(values) for p, values in kept.items()}
        self.is_home = True
        self._dict.clear()
        for p, values in whole.items():
            self._dict.__setitem__(p, values)
        self._read = None

    def leave(self, *, ends: bool) -> int:
        """Nobody else takes part from now on; of how many parameters the state was lost with a rank.

        All is on the host, since the device may have no room for it. Where the cell goes on, it comes to the device
        when it is looked at.
        """
        lost = 0
        if self.optimizer.state is self.state:  # else the cell has loaded another one
            try:
                whole = self.read()
            except PartGone:
                whole = self._of_this_rank()
                lost = sum(bool(part.values) and p not in whole for p, part in self.own.items())
            if ends or self.is_home:
                self.optimizer.state = defaultdict(dict, whole)
            else:
                self._read, self._left = whole, True
        self.own = {}
        self._dict.clear()
        return lost

    def _of_this_rank(self) -> dict[Any, Any]:
        """What is whole without the others."""
        own = {p: part for p, part in self.own.items() if not any(map(part.is_split, part.values))}
        return dict(self._dict.items()) | {p: part.values for p, part in own.items() if part.values}

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


def _back(values: dict[str, Any]) -> dict[str, Any]:
    """On the device whose tensors they are."""
    return {name: _here(value) if isinstance(value, torch.Tensor) else value for name, value in values.items()}


def _here(t: torch.Tensor) -> torch.Tensor:
    away = getattr(t.untyped_storage(), sides.AWAY, None)
    if away is None:
        return t
    with torch.no_grad(), torch._C.DisableTorchFunction():
        host = torch.empty(0, dtype=t.dtype, device="cpu").set_(away(), 0, t.shape, t.stride())
        made: torch.Tensor = host.to(t.device)
        return made


def _can_split(p: torch.Tensor) -> bool:
    if p.grad is not None and p.grad.is_sparse:
        return False
    return p.numel() >= LEAST and p.is_contiguous() and p.layout is torch.strided and p.requires_grad


def _view(p: torch.Tensor, part: StatePart, shards: Shards | None) -> torch.Tensor:
    """This rank's part of a parameter, with that of its gradient."""

    def own(t: torch.Tensor) -> torch.Tensor:
        found = shards.part(t) if shards is not None else None
        return t.detach().contiguous().view(-1)[part.own] if found is None else found

    with torch.no_grad():
        view = own(p)
        view.grad = None if p.grad is None else own(p.grad)
    return view


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
