"""Other values of a name that earlier cells have used up already: in loaders, settings and functions that they made."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from types import FunctionType, ModuleType
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader

from ...graph.kinds.index_orders import IndexSampler
from ...system.objects import module_of
from ..asking.sweep import uses_name

_BATCH_SIZE = "batch_size"  # what a loader calls it, whose number was written where it was made
_COLLECTIONS = (list, tuple, dict)
_LEAD_NOWHERE = (int, float, str, bytes, bool, type(None))
_MOST, _MOST_OF_ONE = 10_000, 100  # objects looked at; settings are near, and data sets long
_NEAR = 1  # as far as a dictionary's values are


def put(source: str, namespace: dict[str, Any], values: Mapping[str, int], was: Mapping[str, int]) -> tuple[str, ...]:
    """Give the names these values wherever the cell can meet them; the names that nothing reads. `was`: before."""
    return tuple(name for name, value in values.items() if not _put(source, namespace, name, value, was.get(name)))


def _put(source: str, namespace: dict[str, Any], name: str, value: int, was: int | None) -> bool:
    functions = [one for one in namespace.values() if type(one) is FunctionType and one.__globals__ is namespace]
    read = uses_name(source, name, is_variable=name in namespace) or any(
        name in code.co_names for code in _codes(functions)
    )
    reached = list(_within(namespace))
    before = _numbers(reached, name) | ({was} if was is not None else set())
    for _, one in reached:
        if issubclass(type(one), DataLoader):
            read |= _put_into_loader(one, name, value, before)
        else:
            read |= _put_into_settings(one, name, value, before)
    for function in functions:
        read |= _put_into_defaults(function, name, value)
    if read or name in namespace:
        namespace[name] = value
    return read


def _codes(functions: Iterable[FunctionType]) -> Iterator[Any]:
    codes = [function.__code__ for function in functions]
    for code in codes:
        yield code
        codes += [constant for constant in code.co_consts if hasattr(constant, "co_names")]


def _within(namespace: dict[str, Any]) -> Iterator[tuple[int, Any]]:
    """What the variables lead to, the nearest first: loaders, settings and all that holds some; and how far it is."""
    seen: dict[int, Any] = {id(namespace): namespace}
    todo = deque((0, value) for value in namespace.values())
    while todo and len(seen) < _MOST:
        far, value = todo.popleft()
        if type(value) in _LEAD_NOWHERE or id(value) in seen:
            continue
        seen[id(value)] = value
        yield far, value
        if type(value) in _COLLECTIONS:
            inside = islice(value.values() if type(value) is dict else value, _MOST_OF_ONE)
            todo.extend((max(far, _NEAR), one) for one in inside)
        elif not issubclass(type(value), (Tensor, type)):
            todo.extend((far + _NEAR + 1, one) for one in _settings(value).values())


def _numbers(reached: Iterable[tuple[int, Any]], name: str) -> set[int]:
    """What stands under the name, where it is nearest; further off another number is something else's."""
    found = [(far, held[name]) for far, one in reached if type((held := _settings(one)).get(name)) is int]
    nearest = max(_NEAR, min((far for far, _ in found), default=0))
    return {number for far, number in found if far <= nearest}


def _settings(one: Any) -> dict[str, Any]:
    """What it keeps by names: a dictionary, or the attributes of an object or of a class of the notebook."""
    kind = type(one)
    if kind is dict:
        return dict(one)
    if issubclass(kind, (ModuleType, FunctionType)) or (issubclass(kind, type) and module_of(one) != "__main__"):
        return {}
    try:
        return dict(object.__getattribute__(one, "__dict__") if not issubclass(kind, type) else vars(one))
    except AttributeError:
        return {}


def _put_into_loader(loader: Any, name: str, value: int, before: set[int]) -> bool:
    now = loader.batch_size
    if now is None or not (now in before if before else name == _BATCH_SIZE):
        return False
    vars(loader)[_BATCH_SIZE] = value  # a loader refuses a plain assignment
    sampler = loader.batch_sampler
    if isinstance(sampler, IndexSampler):
        sampler = sampler.sampler
    if getattr(sampler, _BATCH_SIZE, None) == now:
        sampler.batch_size = value
    return True


def _put_into_settings(one: Any, name: str, value: int, before: set[int]) -> bool:
    """Where it has that name, or has taken the number over under an end of it: a Trainer's `_train_batch_size`."""
    held = _settings(one)
    taken = [key for key, had in held.items() if type(had) is int and had in before]
    for key in (key for key in taken if key == name or _is_end(key, name)):
        if type(one) is dict:
            one[key] = value
        elif isinstance(one, type):
            setattr(one, key, value)
        else:
            object.__getattribute__(one, "__dict__")[key] = value  # settings may be frozen
    return name in taken


def _is_end(key: object, name: str) -> bool:
    """`train_batch_size` of `per_device_train_batch_size`, but no single word."""
    end = key.strip("_") if isinstance(key, str) else ""
    return "_" in end and name.endswith(f"_{end}")


def _put_into_defaults(function: FunctionType, name: str, value: int) -> bool:
    code, defaults = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount][code.co_argcount - len(defaults) :]
    if name in names:
        function.__defaults__ = tuple(value if one == name else old for one, old in zip(names, defaults, strict=True))
    if name in (function.__kwdefaults__ or {}):
        function.__kwdefaults__[name] = value  # type: ignore[index]
    return name in names or name in (function.__kwdefaults__ or {})
