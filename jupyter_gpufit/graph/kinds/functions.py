"""Functions, closures, classes and modules.

What the notebook defines goes by value and keeps its globals: on the other side these are the namespace there. What a
library defines goes by name, or, where it has none (a decorator's inner function), by value with that module's globals.
"""

from __future__ import annotations

import functools
import pickle
import sys
from collections import OrderedDict
from enum import Enum
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any

from cloudpickle.cloudpickle import _should_pickle_by_reference

from .. import wire
from ..kind import Kind, Pickler, Reduced
from .instances import find_in_module
from .streams import find_method, method_of

_MADE_BY_PYTHON = 1 << 9  # Py_TPFLAGS_HEAPTYPE, of a class that is no part of compiled code
_ORDERED: OrderedDict[Any, Any] = OrderedDict()
_OF_NOWHERE: dict[type, Any] = {  # classes that no module holds, each with an object of it
    type(one): one for one in (_ORDERED.keys(), _ORDERED.values(), _ORDERED.items())
}
_OF_THE_CLASS_ITSELF = frozenset(  # made by Python for each class, or caches of it
    {"__dict__", "__weakref__", "_abc_impl", "__slotnames__", "__abstractmethods__", "__annotations_cache__"}
)


def reduce_function(fn: FunctionType, pickler: Pickler) -> Reduced:
    if (ours := wire.reference(fn)) is not None:
        return ours
    if (role := method_of(fn)) is not None:
        return find_method, role
    home: Any = fn.__globals__
    if "_torchdynamo_orig_callable" in fn.__dict__:
        from .compiled import reduce_compiled_function

        return reduce_compiled_function(fn, pickler)
    if home is pickler.namespace:
        pickler.want(fn.__code__, fn.__qualname__)
        pickler.take_source(fn.__code__.co_filename)
    elif _should_pickle_by_reference(fn):
        return NotImplemented
    elif (home := _module_of(fn)) is None:
        return pickler.reduce_as_cloudpickle_does(fn)
    args = (fn.__code__, home, fn.__name__, fn.__qualname__, fn.__module__, fn.__closure__)
    return make_function, args, _contents(fn), None, None, fill_function


def _module_of(fn: FunctionType) -> ModuleType | None:
    # By its globals: functools.wraps gives a wrapper the module of what it wraps.
    module = sys.modules.get(fn.__globals__.get("__name__", ""))
    return module if module is not None and vars(module) is fn.__globals__ else None


def make_function(code: CodeType, home: Any, name: str, qualname: str, module: str, closure: Any) -> FunctionType:
    fn = FunctionType(code, vars(home) if isinstance(home, ModuleType) else home, name, None, closure)
    fn.__qualname__, fn.__module__ = qualname, module
    return fn


def _contents(fn: FunctionType) -> tuple[Any, ...]:
    annotations = fn.__annotations__ if sys.version_info < (3, 14) else None  # reading them there evaluates them
    return fn.__dict__ or None, fn.__defaults__, fn.__kwdefaults__, fn.__doc__, annotations


def function_state(fn: FunctionType) -> Any:
    """Only functions of the notebook change in place; a library's may, but that is the process's own business."""
    return _contents(fn) if fn.__module__ == "__main__" else None


def fill_function(fn: FunctionType, state: tuple[Any, ...]) -> None:
    own, fn.__defaults__, fn.__kwdefaults__, fn.__doc__, annotations = state
    if own is not None:
        fn.__dict__ = own
    if annotations is not None:
        fn.__annotations__ = annotations


def reduce_builtin(fn: BuiltinFunctionType, pickler: Pickler) -> Reduced:
    """One of a module must be found there; one that somebody has replaced since is nowhere to be found."""
    name = fn.__reduce__()
    if not isinstance(name, str):
        return NotImplemented  # a method, which goes with its object
    module = pickle.whichmodule(fn, name)  # type: ignore[attr-defined]
    if getattr(sys.modules.get(module), name, None) is fn:
        return NotImplemented
    return pickler.refuse(fn, f"the {name}() of Python's own, in whose place there is another one by now.")


def reduce_cell(cell: CellType, pickler: Pickler) -> Reduced:
    return make_cell, (), cell_state(cell), None, None, fill_cell


def make_cell() -> CellType:
    return CellType()


def cell_state(cell: CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:  # empty
        return ()


def fill_cell(cell: CellType, state: tuple[Any, ...]) -> None:
    if state:
        cell.cell_contents = state[0]
    elif cell_state(cell):
        del cell.cell_contents


def reduce_class(cls: type, pickler: Pickler) -> Reduced:
    if (ours := wire.reference(cls)) is not None:
        return ours
    if cls.__module__ != "__main__" and not _should_pickle_by_reference(cls):
        name = pickler.name_in_module(cls, cls.__module__)
        if name is not None:  # as the enums of compiled modules, which are not found under their own names
            return find_in_module, (cls.__module__, name)
        if cls in _OF_NOWHERE:
            return type, (_OF_NOWHERE[cls],)
        if not cls.__flags__ & _MADE_BY_PYTHON and (place := _place_elsewhere(cls)) is not None:
            return find_in_module, place  # as what {}.keys() is of
    pickler.want_class(cls)
    found = pickler.reduce_as_cloudpickle_does(cls)
    if found is not NotImplemented and "__slots__" in vars(cls) and not issubclass(cls, Enum):
        # cloudpickle makes the class first and names its slots afterwards, when it is too late for it to have any.
        found = _with_slots(cls, *found)
    if found is not NotImplemented and (
        kept := {name: vars(cls)[name] for name in vars(cls) if _is_guarded(cls, name)}
    ):
        make, args, (own, *more), *_, fill = found
        own = {name: value for name, value in own.items() if name not in kept}
        return make, args, (kept, fill, (own, *more)), None, None, fill_guarded
    return found


class _Bare(type):
    """What a class is for a moment, where its own metaclass refuses an attribute."""


def _is_guarded(cls: type, name: str) -> bool:
    """Whether what a class says under a name is its metaclass's property, and can only be given when it is made."""
    bases: Any = type(cls).__mro__
    found = next((vars(base)[name] for base in bases[: bases.index(type)] if name in vars(base)), None)
    return hasattr(type(found), "__set__")


def fill_guarded(cls: type, state: tuple[dict[str, Any], Any, Any]) -> None:
    kept, fill, rest = state
    fill(cls, rest)
    for name, value in kept.items():
        _set_in_class(cls, name, value)


def _set_in_class(cls: type, name: str, value: Any) -> None:
    if not _is_guarded(cls, name):
        type.__setattr__(cls, name, value)
        return
    own = type(cls)
    type.__setattr__(cls, "__class__", _Bare)
    try:
        type.__setattr__(cls, name, value)
    finally:
        type.__setattr__(cls, "__class__", own)


def _with_slots(cls: type, make: Any, args: tuple[Any, ...], *rest: Any) -> Reduced:
    """With the bases that it came to, too: a `NamedTuple` makes the slots of those that name it as theirs."""
    metaclass, name, _, body, *others = args
    given = {key: vars(cls)[key] for key in ("__slots__", "__orig_bases__") if key in vars(cls)}
    return make, (metaclass, name, cls.__bases__, {**body, **given}, *others), *rest


@functools.cache
def _place_elsewhere(cls: type) -> tuple[str, str] | None:
    """Where the standard library has a class that is not found under its own name."""
    for module in sorted(sys.stdlib_module_names & sys.modules.keys()):
        for name, value in list(vars(sys.modules[module]).items()):
            if value is cls:
                return module, name
    return None


def class_state(cls: type) -> dict[str, Any] | None:
    if cls.__module__ != "__main__":
        return None
    return {name: value for name, value in vars(cls).items() if name not in _OF_THE_CLASS_ITSELF}


def fill_class(cls: type, state: dict[str, Any]) -> None:
    for name in class_state(cls) or {}:
        if name not in state:
            type.__delattr__(cls, name)
    for name, value in state.items():
        if vars(cls).get(name, cls) is not value:
            _set_in_class(cls, name, value)


def reduce_cached(fn: Any, pickler: Pickler) -> Reduced:
    """A function under lru_cache travels without what it has cached."""
    if getattr(fn.__wrapped__, "__globals__", None) is not pickler.namespace and fn.__module__ != "__main__":
        return NotImplemented
    parameters = fn.cache_parameters()
    return make_cached, (fn.__wrapped__, parameters["maxsize"], parameters["typed"]), fn.__dict__ or None


def make_cached(fn: Any, limit: int | None, typed: bool) -> Any:
    return functools.lru_cache(limit, typed)(fn)


def reduce_cached_property(obj: Any, pickler: Pickler) -> Reduced:
    # Until Python 3.12 it holds a lock.
    return make_cached_property, (obj.func, obj.attrname)


def make_cached_property(fn: Any, name: str | None) -> Any:
    made = functools.cached_property(fn)
    made.attrname = name
    return made


def reduce_module(module: ModuleType, pickler: Pickler) -> Reduced:
    return pickler.dispatch_table[ModuleType](module)


FUNCTION = Kind(reduce=reduce_function, state=function_state, fill=fill_function)
CLASS = Kind(reduce=reduce_class, state=class_state, fill=fill_class)
_KINDS: dict[type, Kind] = {
    FunctionType: FUNCTION,
    BuiltinFunctionType: Kind(reduce=reduce_builtin),
    CellType: Kind(reduce=reduce_cell, state=cell_state, fill=fill_cell),
    functools._lru_cache_wrapper: Kind(reduce=reduce_cached),
    functools.cached_property: Kind(reduce=reduce_cached_property),
    ModuleType: Kind(reduce=reduce_module),
}


def find(cls: type) -> Kind | None:
    if issubclass(cls, type):
        return CLASS
    return _KINDS.get(cls) or (_KINDS[ModuleType] if issubclass(cls, ModuleType) else None)
