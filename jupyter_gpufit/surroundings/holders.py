"""What of a module can hold state: the module, its classes, and the containers and plain objects that these hold.

A holder is known by its place, by which the same one is found in another process that has imported the same module.
"""

from __future__ import annotations

import io
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from enum import EnumType
from importlib import import_module
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

from ..graph.refusals import why_not
from ..system.objects import module_of
from ..system.packages import is_of_the_user

Step = tuple[str, Any]  # ".", and an attribute's name; or "[]", and a key or an index
Place = tuple[str, tuple[Step, ...]]  # a module's name, and the steps from there

OWN: Step = (".", "__dict__")
_DEEPEST = 4  # steps: a registry in a class, an object in it, its dict
_MOST = 2000  # holders of one module
_WIDE = 200  # entries of a container that is looked into
_LARGE = 50_000  # entries of a container that is not even compared
_CONTAINERS = (dict, list, set, deque)
_CODE = (ModuleType, FunctionType, BuiltinFunctionType, MethodType, property, classmethod, staticmethod)
_KEYS = (str, int, float, bool, bytes, type(None))
_VALUES = (tuple, str, bytes, int, float, complex, frozenset)
_ARRAYS = frozenset({"numpy", "torch"})  # values, as numbers are
_STANDARD = frozenset({*sys.stdlib_module_names, "builtins"})
_MADE_BY_PYTHON = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_PLAIN = 96  # bytes of an object that is its attributes and nothing else, a few slots included
_MISSING: Any = object()


def root(name: str) -> str:
    """The package of a module."""
    return name.partition(".")[0]


def holders(module: ModuleType, seen: Callable[[Any], bool]) -> Iterator[tuple[tuple[Step, ...], Any]]:
    """The module and what in it holds state, each with the steps to it, less those that are `seen` already."""
    todo: deque[tuple[tuple[Step, ...], Any]] = deque([((), module)])
    met: set[int] = set()
    file = module.__dict__.get("__file__")
    is_own = isinstance(file, str) and is_of_the_user(file)
    while todo and len(met) < _MOST:
        steps, holder = todo.popleft()
        if id(holder) in met or seen(holder):
            continue
        met.add(id(holder))
        yield steps, holder
        if (own := beside(holder)) is not None:
            yield (*steps, OWN), own
        if len(steps) < _DEEPEST:
            todo.extend((*step, value) for *step, value in _inside(steps, holder, module.__name__, is_own))


def _inside(steps: tuple[Step, ...], holder: Any, module: str, is_own: bool) -> Iterator[tuple[Any, ...]]:
    if isinstance(holder, dict) and len(holder) <= _WIDE:
        found = [(("[]", key), value) for key, value in dict.items(holder) if type(key) in _KEYS]
    elif isinstance(holder, list) and len(holder) <= _WIDE:
        found = [(("[]", index), value) for index, value in enumerate(list.__iter__(holder))]
    else:
        found = []
    attributes = beside(holder) if isinstance(holder, _CONTAINERS) else own_names(holder)
    found += [((".", name), value) for name, value in list((attributes or {}).items())]
    for step, value in found:
        if not is_of_python(step[1]) and (_can_hold(value, module) or (is_own and _is_plain(value))):
            yield (*steps, step), value


def entries(holder: Any) -> Iterator[tuple[Step, Any]]:
    """What it holds, each by the step to it."""
    cls = type(holder)
    if issubclass(cls, dict) and dict.__len__(holder) <= _WIDE:
        yield from ((("[]", key), value) for key, value in list(dict.items(holder)))
    elif issubclass(cls, list) and list.__len__(holder) <= _WIDE:
        yield from ((("[]", index), value) for index, value in enumerate(list.__iter__(holder)))
    elif not issubclass(cls, (dict, list)):
        yield from (((".", name), value) for name, value in list((own_names(holder) or {}).items()))


def beside(holder: Any) -> dict[str, Any] | None:
    """The attributes of a container that has its own: a configuration whose keys are both (EasyDict), a registry."""
    if not isinstance(holder, _CONTAINERS) or root(module_of(type(holder))) in _STANDARD:
        return None
    return own_names(holder)


def is_of_python(name: Any) -> bool:
    """`__dict__` and its kind; absl keeps its flags in `__flags`, which is its own."""
    return isinstance(name, str) and name.startswith("__") and name.endswith("__")


def _can_hold(value: Any, module: str) -> bool:
    cls = type(value)
    if issubclass(cls, type):
        return getattr(value, "__module__", "") == module and not isinstance(value, EnumType)
    if issubclass(cls, _CONTAINERS):
        return len(value) <= _LARGE
    if issubclass(cls, _CODE) or issubclass(cls, (weakref.ref, BaseException)) or isinstance(cls, EnumType):
        return False
    if cls is threading.local:
        return True  # where keras counts the names of layers: cells run in the main thread of each process
    if issubclass(cls, io.IOBase):
        return False  # `from sys import stdout`: it belongs to its process
    if why_not(cls) is not None:
        return False  # `ip = get_ipython()`, in a library: a part of this process, with all that it leads to
    if not cls.__flags__ & _MADE_BY_PYTHON or cls.__basicsize__ > _PLAIN:
        return False  # a compiled function has attributes, too
    return root(module_of(cls)) not in _STANDARD and own_names(value) is not None


def is_state(value: Any) -> bool:
    """Whether it is a container, or an object of attributes."""
    return not issubclass(type(value), type) and (_can_hold(value, "") or _is_plain(value))


def _is_plain(value: Any, depth: int = 0) -> bool:
    """Whether it is an object of Python's own library that keeps values and nothing else, as what argparse returns."""
    cls: Any = type(value)
    if cls is not SimpleNamespace:  # which is compiled, and says how it is pickled
        is_written = cls.__flags__ & _MADE_BY_PYTHON and cls.__reduce__ is object.__reduce__
        if not is_written or issubclass(cls, (type, *_CONTAINERS, *_CODE, BaseException)) or cls.__basicsize__ > _PLAIN:
            return False
    held = own_names(value)
    if held is None or root(module_of(cls)) not in _STANDARD or why_not(cls) is not None:
        return False
    return depth < _DEEPEST and all(
        own_names(one) is None
        or root(module_of(type(one))) not in _STANDARD - {"builtins"}
        or _is_plain(one, depth + 1)
        for one in held.values()
    )


def own_names(holder: Any) -> dict[str, Any] | None:
    """The very dict behind the attributes of a module or object, a picture of a class's; None: it has none.

    By the base's own methods: an object may do much when it is asked for an attribute, and a lazy module imports.
    """
    if issubclass(type(holder), type):
        return dict(type.__getattribute__(holder, "__dict__"))
    try:
        base: Any = threading.local if type(holder) is threading.local else object
        found = base.__getattribute__(holder, "__dict__")
    except (AttributeError, TypeError):
        return None
    return found if type(found) is dict else None


def keeps_more(holder: Any, then: Any) -> bool:
    """Whether an object has always kept a part of its state in one without attributes, where nobody sees it change.

    Half of a change would travel: plum's functions note in themselves what they have registered in such a table.
    """
    own = None if isinstance(holder, (type, ModuleType, *_CONTAINERS)) else own_names(holder)
    return own is not None and any(then.get(name) is value and _is_shut(value) for name, value in own.items())


def _is_shut(value: Any) -> bool:
    cls = type(value)
    if issubclass(cls, (type, weakref.ref, *_CODE, *_CONTAINERS, *_VALUES)) or own_names(value) is not None:
        return False
    return root(module_of(cls)) not in _STANDARD | _ARRAYS


def at(place: Place, *, load: bool = True) -> Any:
    """What stands at a place in this process; LookupError if nothing does."""
    name, steps = place
    found: Any = sys.modules.get(name)
    if found is None:
        if not load:
            raise LookupError(name)
        try:
            found = import_module(name)
        except Exception as error:
            raise LookupError(f"{name}: {error}") from error
    for kind, key in steps:
        if (kind, key) == OWN:
            found = beside(found)
            found = _MISSING if found is None else found
        elif kind == ".":
            found = (own_names(found) or {}).get(key, _MISSING)
        elif isinstance(found, dict):
            found = dict.get(found, key, _MISSING)
        elif isinstance(found, list) and isinstance(key, int) and key < len(found):
            found = list.__getitem__(found, key)
        else:
            found = _MISSING
        if found is _MISSING:
            raise LookupError(in_words(place))
    return found


def here_or_new(name: str, steps: tuple[Step, ...], cls: Any) -> Any:
    """The holder at this place; where another process made things otherwise, an empty one of its class."""
    try:
        found = at((name, steps))
    except LookupError:
        found = _MISSING
    return found if type(found) is cls else cls.__new__(cls)


def in_words(place: Place) -> str:
    """As one would write it: gymnasium.envs.registration.registry['Mine-v0']."""
    name, steps = place
    return name + "".join(f".{key}" if kind == "." else f"[{key!r}]" for kind, key in steps)
