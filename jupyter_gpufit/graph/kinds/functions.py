"""Functions, closures and modules.

What the notebook defines goes by value and keeps its globals: on the other side these are the namespace there. What a
library defines goes by name, or, where it has none (a decorator's inner function), by value with that module's globals.
"""

from __future__ import annotations

import functools
import pickle
import sys
from importlib.machinery import ExtensionFileLoader
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any

from cloudpickle.cloudpickle import _PICKLE_BY_VALUE_MODULES, _should_pickle_by_reference

from .. import wire
from ..kind import Kind, Pickler, Reduced
from ..made_modules import loaded_from
from .generic import find_in_module
from .streams import find_method, method_of

# No import finds a module without a name, as `imp.load_source("", path)` makes one: its code goes by value.
_PICKLE_BY_VALUE_MODULES.add("")


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
        pickler.take_source(fn.__code__.co_filename, fn.__code__)
    elif fn.__module__ is None:  # of a code that was made from a text: who has it must be looked for
        if (place := pickler.home_of(fn)) is not None:
            return find_in_module, (place, fn.__name__)
        if (home := _home_of(fn, pickler)) is None:
            return pickler.reduce_by_value(fn)
    elif _should_pickle_by_reference(fn):
        return NotImplemented
    elif (home := _home_of(fn, pickler)) is None:
        return pickler.reduce_as_cloudpickle_does(fn)
    args = (fn.__code__, home, fn.__name__, fn.__qualname__, fn.__module__, fn.__closure__)
    return make_function, args, _contents(fn), None, None, fill_function


def _home_of(fn: FunctionType, pickler: Pickler) -> Any:
    """What goes as its globals; None: those of them that it uses."""
    if (home := _module_of(fn)) is not None:
        return home
    pickler.take_source(fn.__code__.co_filename, fn.__code__)
    return pickler.kept_home(fn)


def _module_of(fn: FunctionType) -> ModuleType | None:
    # By its globals: functools.wraps gives a wrapper the module of what it wraps.
    name = fn.__globals__.get("__name__", "")
    module = sys.modules.get(name) if name else None
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
    spec: Any = getattr(module, "__spec__", None)
    if isinstance(getattr(spec, "loader", None), ExtensionFileLoader) and module.__name__ not in sys.modules:
        return loaded_from, (spec.name, str(spec.origin))  # as those that torch.utils.cpp_extension has compiled
    return pickler.dispatch_table[ModuleType](module)


FUNCTION = Kind(reduce=reduce_function, state=function_state, fill=fill_function)
_KINDS: dict[type, Kind] = {
    FunctionType: FUNCTION,
    BuiltinFunctionType: Kind(reduce=reduce_builtin),
    CellType: Kind(reduce=reduce_cell, state=cell_state, fill=fill_cell),
    functools.cached_property: Kind(reduce=reduce_cached_property),
    ModuleType: Kind(reduce=reduce_module),
}


def find(cls: type) -> Kind | None:
    return _KINDS.get(cls) or (_KINDS[ModuleType] if issubclass(cls, ModuleType) else None)
