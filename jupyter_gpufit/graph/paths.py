"""Where in a variable an object is, as one would write it: model.cb['q'][1]."""

from __future__ import annotations

import gc
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from .kinds.instances import attributes

_MANY = 200_000  # objects looked at before giving up
_OF_A_MODULE = ("_modules", "_parameters", "_buffers")  # nn.Module shows the contents of these as attributes


def where(roots: Mapping[str, Any], target: Any) -> tuple[str, str] | None:
    """The variable that leads to an object by the fewest steps, and the path to it."""
    return search(roots, lambda obj: obj is target)


def search(roots: Mapping[str, Any], wanted: Callable[[Any], bool]) -> tuple[str, str] | None:
    """`where`, of the first object that is wanted."""
    todo = deque((name, name, obj) for name, obj in roots.items())
    seen: set[int] = set()
    while todo and len(seen) < _MANY:
        name, path, obj = todo.popleft()
        if wanted(obj):
            return name, path
        if id(obj) in seen or isinstance(obj, (types.ModuleType, str, bytes, int, float)):
            continue
        seen.add(id(obj))
        todo.extend((name, path + step, child) for step, child in _children(obj))
    return None


def _children(obj: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(obj, dict):
        for key, value in dict.items(obj):
            yield f"[{_short(key)}]", value
            yield ".<key>", key
    elif isinstance(obj, (list, tuple, deque)):
        yield from ((f"[{number}]", value) for number, value in enumerate(obj))
    elif isinstance(obj, (set, frozenset)):
        yield from ((".<item>", value) for value in obj)
    elif isinstance(obj, types.FunctionType):
        yield from _of_function(obj)
    elif isinstance(obj, types.MethodType):
        yield ".__self__", obj.__self__
        yield ".__func__", obj.__func__
    elif not isinstance(obj, type):
        own, slots = attributes(obj)
        named = list({**(own or {}), **(slots or {})}.items())
        yield from _of_attributes(named)
        if not named:
            yield from ((".<part>", child) for child in gc.get_referents(obj) if not isinstance(child, type))
    else:
        yield from _of_attributes(vars(obj).items())


def _of_attributes(named: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    for name, value in named:
        if name in _OF_A_MODULE and isinstance(value, dict):
            yield from ((f".{inner}", child) for inner, child in value.items())
        else:
            yield f".{name}", value


def _of_function(fn: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            yield f".<{name}>", cell.cell_contents
        except ValueError:
            continue
    yield from ((".<default>", value) for value in fn.__defaults__ or ())
    yield from ((f".{name}", value) for name, value in fn.__dict__.items())


def _short(key: Any) -> str:
    text = repr(key) if isinstance(key, (str, int, float, bytes, tuple, bool)) else f"<{type(key).__name__}>"
    return text if len(text) <= 40 else text[:37] + "..."
