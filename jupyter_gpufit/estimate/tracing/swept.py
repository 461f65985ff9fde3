"""Other values of a name that earlier cells have used up already: in loaders, settings and functions that they made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any

from torch.utils.data import DataLoader

from ..asking.sweep import uses_name

_BATCH_SIZE = "batch_size"  # what a loader calls it, whose number was written where it was made
_COLLECTIONS = (list, tuple, dict)


def put(source: str, namespace: dict[str, Any], values: Mapping[str, int], was: Mapping[str, int]) -> tuple[str, ...]:
    """Give the names these values wherever the cell can meet them; the names that nothing reads. `was`: before."""
    return tuple(name for name, value in values.items() if not _put(source, namespace, name, value, was.get(name)))


def _put(source: str, namespace: dict[str, Any], name: str, value: int, was: int | None) -> bool:
    functions = [one for one in namespace.values() if type(one) is FunctionType and one.__globals__ is namespace]
    read = uses_name(source, name) or any(name in code.co_names for code in _codes(functions))
    reached = list(_within(namespace.values()))
    for loader in (one for one in reached if issubclass(type(one), DataLoader)):
        read |= _put_into_loader(loader, name, value, was)
    for one in reached:
        read |= _put_into_settings(one, name, value)
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


def _within(values: Iterable[Any]) -> Iterator[Any]:
    """The values, and those in lists and dictionaries among them."""
    for value in values:
        yield value
        if type(value) in _COLLECTIONS:
            yield from value.values() if type(value) is dict else value


def _put_into_loader(loader: Any, name: str, value: int, was: int | None) -> bool:
    now = loader.batch_size
    if now is None or now != (was if was is not None else now if name == _BATCH_SIZE else None):
        return False
    vars(loader)[_BATCH_SIZE] = value  # a loader refuses a plain assignment
    if getattr(loader.batch_sampler, _BATCH_SIZE, None) == now:
        loader.batch_sampler.batch_size = value
    return True


def _put_into_settings(one: Any, name: str, value: int) -> bool:
    """A dictionary's key, or an attribute of a plain object or class of the notebook, that is a number now."""
    kind = type(one)
    if kind is dict:
        held: Any = one
    elif issubclass(kind, type):
        held = vars(one) if one.__module__ == "__main__" else {}
    else:
        held = {} if issubclass(kind, (ModuleType, FunctionType, DataLoader)) else getattr(one, "__dict__", {})
    if type(held.get(name)) is not int:
        return False
    if kind is dict:
        one[name] = value
    else:
        setattr(one, name, value)
    return True


def _put_into_defaults(function: FunctionType, name: str, value: int) -> bool:
    code, defaults = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount][code.co_argcount - len(defaults) :]
    if name in names:
        function.__defaults__ = tuple(value if one == name else old for one, old in zip(names, defaults, strict=True))
    if name in (function.__kwdefaults__ or {}):
        function.__kwdefaults__[name] = value  # type: ignore[index]
    return name in names or name in (function.__kwdefaults__ or {})
