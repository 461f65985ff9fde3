"""Random numbers in a forward with some rows of the batch: of those that one device draws, a rank takes its own.

Each rank draws for the whole batch, from generators that are in the same state, and leaves them as one device does.
What a fused kernel draws inside, as attention on a GPU may, is not seen here; the first batch's comparison sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from ..rungs.operations import does, written
from .group import Group
from .parts import BatchShare
from .passages import join


class Unlike(Exception):
    """A forward does not do what it did before."""


@dataclass
class Draw:
    """One operation that draws, in a run with the whole batch."""

    name: str
    shape: tuple[int, ...]
    order: tuple[int, ...]  # of its dimensions in memory, in which numbers are drawn; one sample does not show it
    dim: int | None = None  # of the batch, once a run with rows has found it


@dataclass
class Draws:
    """All of them, in their order."""

    made: list[Draw] = field(default_factory=list)

    def again(self) -> Draws:
        """To be learnt anew."""
        return Draws([Draw(one.name, one.shape, one.order) for one in self.made])


_INSIDE = ("attention", "_rnn")  # kernels that drop what nobody sees
_RATES = ("dropout_p", "dropout")


def _draws(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    return not any(part in func._opname for part in _INSIDE) or _rate(func, args, kwargs) > 0


def _rate(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> float:
    for at, one in enumerate(func._schema.arguments):
        if one.name in _RATES:
            return float(args[at] if at < len(args) else kwargs.get(one.name, one.default_value or 0.0))
    return 0.0


class AnyDraw(TorchDispatchMode):
    """Notes whether anything is drawn."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.noted = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.noted = self.noted or _draws(func, args, kwargs)
        return func(*args, **kwargs)


class OfTheWhole(TorchDispatchMode):
    """Notes what is drawn; `about_to_write` is told of what an operation will change."""

    def __init__(self, draws: Draws, about_to_write: Callable[[Any], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._draws, self._about_to_write = draws, about_to_write

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        writes = does(func)[1]
        if writes:
            self._about_to_write(written(writes, args, kwargs))
        out = func(*args, **kwargs)
        if _draws(func, args, kwargs):
            t = _first(out)
            order = sorted(range(t.dim()), key=lambda dim: t.stride(dim), reverse=True)
            self._draws.made.append(Draw(func._opname, tuple(t.shape), tuple(order)))
        return out


class OfRows(TorchDispatchMode):
    """Draws for the whole batch, and takes this rank's rows."""

    def __init__(self, draws: Draws, share: BatchShare, group: Group, *, at: int = 0, learns: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._draws, self._share, self._group, self._learns = draws, share, group, learns
        self.at = at

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not _draws(func, args, kwargs):
            return func(*args, **kwargs)
        if any(part in func._opname for part in _INSIDE):
            raise Unlike(f"{func._opname} draws random numbers inside of one kernel, of which none can take a part")
        drawn = self._next(func._opname)
        shape = _shape(func, args)
        if self._learns and shape != drawn.shape:
            drawn.dim = self._dim(drawn, shape)
        return (
            func(*args, **kwargs)
            if drawn.dim is None
            else self._rows(func, args, kwargs, shape, drawn.dim, drawn.order)
        )

    def finished(self) -> None:
        """All have been drawn."""
        if self.at != len(self._draws.made):
            raise Unlike("it draws fewer random numbers")

    def _next(self, name: str) -> Draw:
        at, self.at = self.at, self.at + 1
        if at >= len(self._draws.made) or self._draws.made[at].name != name:
            raise Unlike(f"it draws other random numbers ({name})")
        return self._draws.made[at]

    def _dim(self, drawn: Draw, shape: tuple[int, ...]) -> int:
        share = self._share
        if len(shape) == len(drawn.shape):
            differ = [dim for dim, size in enumerate(shape) if size != drawn.shape[dim]]
            if len(differ) == 1 and shape[differ[0]] * share.whole == drawn.shape[differ[0]] * share.mine:
                if drawn.name != "randperm":  # of whose parts none is an order of a part
                    return differ[0]
        raise Unlike(f"its random numbers ({drawn.name}) do not follow the batch")

    def _rows(self, func: Any, args: Any, kwargs: Any, shape: tuple[int, ...], dim: int, order: tuple[int, ...]) -> Any:
        share = self._share
        if shape[dim] % share.mine:
            raise Unlike(f"its random numbers ({func._opname}) do not follow the batch")
        each = shape[dim] // share.mine
        sizes = [size * each for size in share.sizes]
        whole = (*shape[:dim], sum(sizes), *shape[dim + 1 :])

        def mine(t: torch.Tensor) -> torch.Tensor:
            return t.narrow(dim, sum(sizes[: share.rank]), shape[dim])

        first = args[0]
        if not isinstance(first, torch.Tensor):  # a size: all that draws has its own kind of it in one place
            at = next(n for n, arg in enumerate(args) if _is_size(arg))
            return mine(func(*args[:at], list(whole), *args[at + 1 :], **kwargs)).clone()
        others = [t for t in tree_leaves((args[1:], kwargs)) if isinstance(t, torch.Tensor) and t.dim()]
        if not others and (func._opname.endswith("_") or func._opname.endswith("_like")):
            made = func(_larger(first, whole, order), *args[1:], **kwargs)
            return first.copy_(mine(made)) if func._opname.endswith("_") else mine(made).clone()
        if func._opname == "native_dropout":
            made, mask = func(torch.ones_like(_larger(first, whole, order)), *args[1:], **kwargs)
            return first * mine(made), mine(mask).clone()

        def gathered(t: Any) -> Any:
            of_rows = isinstance(t, torch.Tensor) and t.dim() > dim and t.shape[dim] == shape[dim]
            return join(self._group, t, dim, sizes) if of_rows else t

        given, named = tree_map(gathered, args), tree_map(gathered, kwargs)
        made = func(*given, **named)
        for at, name in does(func)[1] or ():  # itself, or what its backward needs: the slopes of rrelu()
            into, drawn = (args[at], given[at]) if at < len(args) else (kwargs.get(name), named.get(name))
            if isinstance(into, torch.Tensor) and drawn is not into:
                into.copy_(mine(drawn))
        if func._opname.endswith("_"):
            return first
        return tree_map(lambda t: mine(t).clone() if isinstance(t, torch.Tensor) else t, made)


def _is_size(arg: Any) -> bool:
    return isinstance(arg, (list, tuple))


def _first(out: Any) -> torch.Tensor:
    return next(t for t in tree_leaves(out) if isinstance(t, torch.Tensor))


def _shape(func: Any, args: Any) -> tuple[int, ...]:
    """Of what comes out."""
    if isinstance(args[0], torch.Tensor):
        if func._opname == "multinomial":
            return (*args[0].shape[:-1], args[1])
        return tuple(args[0].shape)
    if func._opname == "randperm":
        return (args[0],)
    return tuple(next((arg for arg in args if _is_size(arg)), ()))


def _larger(t: torch.Tensor, shape: tuple[int, ...], order: tuple[int, ...]) -> torch.Tensor:
    laid = t.new_empty([shape[dim] for dim in order])
    return laid.permute([order.index(dim) for dim in range(len(order))])
