"""What goes on by itself in a worker of a DataLoader: random generators, and plain values that the dataset changes.

Found are those that the dataset, collate_fn and worker_init_fn lead to: through attributes, containers, closures,
partials and methods, and through the globals that functions of the user's own use. Each has a path, by which it is
found again in the worker that takes the place of another.

Not covered: what lies deeper than so many objects, and arrays of numpy that are changed in place.
"""

from __future__ import annotations

import functools
import sys
import types
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch

from ..graph.code import names_used
from ..graph.kinds.draws import put_state, read_state
from ..graph.kinds.instances import slots_of
from ..program.values import hidden
from ..system.objects import is_generator
from ..system.packages import file_of
from .own_files import homes, is_own

_MANY = 10_000  # objects that are looked at
_WATCHED = 1000  # names and containers, of those nearest: they are looked at with each batch
_ATOMS = (int, float, complex, str, bytes, bool, type(None))
_PLAIN = (*_ATOMS, torch.dtype, torch.device, types.CodeType)
_CONTAINERS = (list, dict, set, deque)

Path: TypeAlias = str
Child: TypeAlias = tuple[str, Any]  # a step of a path, and what is there


@dataclass(frozen=True)
class Made:
    """A generator that a worker has made for itself."""

    like: Any  # how to make it: a class, or the class of numpy's bits
    state: Any


@dataclass(frozen=True)
class WatchedState:
    """What is picked up with each batch; plain values, since they are sent while the worker goes on."""

    generators: dict[Path, Any]
    changed: dict[tuple[Path, str], Any] = field(default_factory=dict)
    lost: tuple[str, ...] = ()  # names whose change cannot be taken along


@dataclass(frozen=True)
class _Home:
    """Where names are bound: an object's attributes, a class, or those globals that a function uses."""

    owner: Any  # a dict, or a class
    names: dict[str, Any]  # what they were; one that there was not yet is None
    only_these: bool

    def changes(self) -> Iterator[tuple[str, Any, Any]]:
        """The names that are bound to something else by now: what they were, and are."""
        now = vars(self.owner) if isinstance(self.owner, type) else self.owner
        for name in self.names if self.only_these else list(now):
            then, value = self.names.get(name), now.get(name)
            if value is not then and not (isinstance(value, _ATOMS) and type(value) is type(then) and value == then):
                yield name, then, value

    def put(self, name: str, value: Any) -> None:
        if isinstance(self.owner, type):
            setattr(self.owner, name, value)
        else:
            self.owner[name] = value


class Watched:
    """To be made in the worker once it is ready, or before it is started."""

    def __init__(self, roots: Mapping[str, Any]) -> None:
        self._generators: dict[Path, Any] = {}
        self._homes: dict[Path, _Home] = {}
        self._containers: list[tuple[str, Any, int]] = []
        self._watched = 0
        self._directories = homes()
        self._look(roots)

    def read(self) -> WatchedState:
        changed: dict[tuple[Path, str], Any] = {}
        lost = {name: None for name, one, size in self._containers if _size(one) != size}
        for path, home in self._homes.items():
            for name, then, value in home.changes():
                if isinstance(value, _ATOMS):
                    changed[path, name] = value
                elif is_generator(value):
                    changed[path, name] = Made(_like(value), read_state(value))
                elif then is not None or (isinstance(value, _CONTAINERS) and value):
                    lost[name] = None  # but a file or a model that is opened where it is first used is opened again
        return WatchedState({path: read_state(one) for path, one in self._generators.items()}, changed, tuple(lost))

    def put(self, state: WatchedState) -> None:
        for (path, name), value in state.changed.items():
            self._homes[path].put(name, _made(value) if isinstance(value, Made) else value)
        for path, was in state.generators.items():
            put_state(self._generators[path], was)

    def _look(self, roots: Mapping[str, Any]) -> None:
        todo: deque[tuple[Path, Any]] = deque(roots.items())
        seen: dict[int, Any] = {}
        while todo and len(seen) < _MANY:
            path, obj = todo.popleft()
            if id(obj) in seen or isinstance(obj, _PLAIN):
                continue
            seen[id(obj)] = obj
            if is_generator(obj):
                self._generators[path] = obj
                continue
            if isinstance(obj, (*_CONTAINERS, torch.Tensor)) and self._may_watch(1):
                self._containers.append((_last(path), obj, _size(obj)))
            todo.extend((f"{path}.{step}", child) for step, child in self._inside(path, obj))

    def _inside(self, path: Path, obj: Any) -> Iterator[Child]:
        if isinstance(obj, torch.Tensor):
            return
        if isinstance(obj, dict):
            yield from _some((str(key), value) for key, value in list(obj.items())[:100])
        elif isinstance(obj, (list, tuple)):
            yield from _some((str(number), value) for number, value in enumerate(obj[:100]))
        elif isinstance(obj, types.FunctionType):
            yield from self._of_function(path, obj)
        elif isinstance(obj, (types.MethodType, staticmethod, classmethod)):
            yield "func", obj.__func__
            yield "self", getattr(obj, "__self__", None)
        elif isinstance(obj, types.BuiltinMethodType):
            yield "self", obj.__self__  # `draw = rng.random`
        elif isinstance(obj, functools.partial):
            yield from (("func", obj.func), ("args", obj.args), ("keywords", obj.keywords))
        elif isinstance(obj, property):
            yield from (("get", obj.fget), ("set", obj.fset))
        elif isinstance(obj, type):
            if self._is_own(obj.__module__):
                yield from self._watch(path, obj, dict(sorted(vars(obj).items())))
                yield from ((f"base {number}", base) for number, base in enumerate(obj.__bases__))
        elif isinstance(obj, types.ModuleType):
            if self._is_own(obj.__name__):
                yield from self._watch(path, vars(obj), vars(obj))
        else:
            own = getattr(obj, "__dict__", None)
            if isinstance(own, dict):
                yield from self._watch(path, own, own)
            yield from ((name, getattr(obj, name, None)) for name in slots_of(type(obj)))
            yield "class", type(obj)
            if isinstance(obj, functools._lru_cache_wrapper):
                yield "wrapped", obj.__wrapped__

    def _of_function(self, path: Path, fn: types.FunctionType) -> Iterator[Child]:
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
            try:
                yield name, cell.cell_contents
            except ValueError:  # empty
                continue
        yield from ((f"default {number}", value) for number, value in enumerate(fn.__defaults__ or ()))
        yield from (fn.__kwdefaults__ or {}).items()
        yield from self._watch(path, fn.__dict__, fn.__dict__)
        if self._is_own(fn.__globals__.get("__name__", "")):
            used = [name for name in dict.fromkeys(names_used(fn.__code__)) if not hidden(name)]
            found = {name: fn.__globals__.get(name) for name in used}
            yield from self._watch(f"{path}()", fn.__globals__, found, only_these=True)

    def _watch(self, path: Path, owner: Any, names: Mapping[str, Any], *, only_these: bool = False) -> Iterator[Child]:
        """These may be bound to something else while the worker runs."""
        if self._may_watch(len(names)):
            self._homes[path] = _Home(owner, dict(names), only_these)
        yield from list(names.items())

    def _may_watch(self, more: int) -> bool:
        if self._watched + more > _WATCHED:
            return False
        self._watched += more
        return True

    def _is_own(self, module: str) -> bool:
        """Whether the user wrote it. What a library keeps for itself is not looked at."""
        file = file_of(sys.modules.get(module))
        return module == "__main__" or (file != "" and is_own(file, self._directories))


def _some(children: Iterator[Child]) -> Iterator[Child]:
    return ((step, child) for step, child in children if not isinstance(child, _PLAIN))


def _last(path: Path) -> str:
    """As the user would call it."""
    return next((step for step in reversed(path.split(".")) if not step.isdigit()), path)


def _size(one: Any) -> int:
    if isinstance(one, torch.Tensor):
        return 0 if one.is_inference() else one._version
    return len(one)


# Generators ----------------------------------------------------------------------------------------------------------


def _like(generator: Any) -> Any:
    return type(getattr(generator, "bit_generator", generator))


def _made(found: Made) -> Any:
    made = found.like()
    if hasattr(made, "random_raw"):
        made = sys.modules["numpy"].random.Generator(made)
    put_state(made, found.state)
    return made
