"""Operations over all tensors of a model at once, taken a few tensors at a time.

Torch's optimizers and its clipping of gradients call one kernel for long lists of tensors, and each tensor is computed
by itself there: in parts the bits are the same, and only a part has to be on the device.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any

import torch
from torch.optim import Optimizer

_NAMES = ("_foreach_", "_fused_", "_amp_foreach_")
_FUNCTIONS = ("_multi_tensor_", "_fused_")  # of torch.optim, one for each optimizer
SHARE = 4  # of what may be on the device, what one part takes: its temporaries and the part before it are there, too


@cache
def takes_lists(func: Any) -> bool:
    """Whether an operation does the same to each tensor of its lists."""
    return bool(func.namespace == "aten" and func._opname.startswith(_NAMES))


def in_slices(func: Any, args: Sequence[Any], kwargs: dict[str, Any], run: Callable[..., Any]) -> Any:
    """One tensor of each list after the other."""
    length = max((len(arg) for arg in args if _is_list(arg)), default=0)

    def one(arg: Any, at: int) -> Any:
        return arg[at : at + 1] if _is_list(arg) and len(arg) == length else arg

    made = [
        run(func, tuple(one(arg, at) for arg in args), {name: one(arg, at) for name, arg in kwargs.items()})
        for at in range(length)
    ]
    if not made:
        return run(func, args, kwargs)
    return None if made[0] is None else [one for part in made for one in part]


def _is_list(arg: Any) -> bool:
    return isinstance(arg, (list, tuple))


@contextmanager
def steps_in_slices(room: int) -> Iterator[None]:
    """Let torch's optimizers step a few parameters at a time, instead of sweeping over all of them for each kernel."""
    before = [(module, name, vars(module)[name]) for module, name in _steps()]
    for module, name, real in before:
        setattr(module, name, _sliced(real, room))
    try:
        yield
    finally:
        for module, name, real in before:
            setattr(module, name, real)


@cache
def _steps() -> list[tuple[Any, str]]:
    home = importlib.import_module(Optimizer.__module__.rpartition(".")[0])
    modules = [importlib.import_module(f"{home.__name__}.{one.name}") for one in pkgutil.iter_modules(home.__path__)]
    return [
        (module, name)
        for module in modules
        for name, value in vars(module).items()
        if name.startswith(_FUNCTIONS) and callable(value) and value.__module__ == module.__name__
    ]


def _sliced(real: Callable[..., None], room: int) -> Callable[..., None]:
    @wraps(real)
    def step(params: Any, *lists: Any, **options: Any) -> None:
        count = len(params)
        for begin, end in _parts([*lists, params], count, room // SHARE):
            parts = [one[begin:end] if _is_list(one) and len(one) == count else one for one in lists]
            real(params[begin:end], *parts, **options)
            for whole, part in zip(lists, parts, strict=True):
                if isinstance(whole, list) and part is not whole:
                    whole[begin:end] = part  # a first step fills lists of momenta

    return step


def _parts(lists: Sequence[Any], count: int, most: int) -> Iterator[tuple[int, int]]:
    """From where to where, with so many bytes at the most, or one parameter."""
    begin = size = 0
    for at in range(count):
        more = sum(_size(one[at]) for one in lists if _is_list(one) and len(one) == count)
        if at > begin and size + more > most:
            yield begin, at
            begin, size = at, 0
        size += more
    if count:
        yield begin, count


def _size(t: Any) -> int:
    return t.numel() * t.element_size() if isinstance(t, torch.Tensor) else 0
