"""Whatever has a `__reduce__` of its own, in C or in Python: it travels as pickle has it."""

from __future__ import annotations

import copyreg
import functools
import hashlib
import pickle
import sys
from dataclasses import fields, is_dataclass
from importlib import import_module
from types import BuiltinFunctionType
from typing import Any

from cloudpickle.cloudpickle import _should_pickle_by_reference

from ..kind import Kind, Pickler, Reduced

MADE_WHEN_IMPORTED = 1 << 9  # Py_TPFLAGS_HEAPTYPE, of a class that is no part of Python itself, or of compiled code
_MAKES_ANEW: Any = copyreg.__newobj__  # type: ignore[attr-defined]


def own_name(obj: Any) -> str | None:
    """The name by which a module holds a callable that says so itself, as functions do: what a decorator made of one.

    Such a one goes by its name: a dispatcher's lock, or what it has compiled, is each process's own.
    """
    if not callable(obj):
        return None
    try:
        name, module = obj.__qualname__, obj.__module__
        if type(name) is not str or module == "__main__":
            return None
        found = functools.reduce(getattr, name.split("."), sys.modules[module])
    except Exception:  # whatever it answers that is not one
        return None
    return name if found is obj else None


def find_in_module(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


def set_state(obj: Any, state: Any) -> None:
    """What pickle does with a state."""
    if hasattr(obj, "__setstate__"):
        obj.__setstate__(state)
        return
    own, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    obj.__dict__.update(own or {})
    for name, value in (slots or {}).items():
        setattr(obj, name, value)


def reduced(obj: Any, pickler: Pickler | None = None) -> Any:
    special = pickler.dispatch_table.get(type(obj)) if pickler else copyreg.dispatch_table.get(type(obj))
    return special(obj) if special else obj.__reduce_ex__(5)


def reduce_generic(obj: Any, pickler: Pickler) -> Reduced:
    if (name := own_name(obj)) is not None:
        return name
    found = reduced(obj, pickler)
    if _only_begins(obj):
        name = pickler.name_in_module(obj, type(obj).__module__)
        values = tuple(getattr(obj, field.name) for field in fields(obj) if field.init)
        return (type(obj), values) if name is None else (find_in_module, (type(obj).__module__, name))
    if not isinstance(found, str):
        by_own_new = found[0] is _MAKES_ANEW and _makes_it_its_own_way(type(obj))
        return (make_as_built_in, *found[1:]) if by_own_new else found
    module = pickle.whichmodule(obj, found)  # type: ignore[attr-defined]
    # Of one that says no module (SciPy's ufuncs) pickle's compiled half finds `__mp_main__`, which is the notebook.
    says_so = getattr(obj, "__module__", None) is not None or module == "__main__"
    if pickler.name_in_module(obj, module) in ((None, found) if says_so else (None,)):
        return found
    return find_in_module, (module, pickler.name_in_module(obj, module))


def _only_begins(obj: Any) -> bool:
    """Whether it has its values when it is made or never: a frozen dataclass in compiled code (plum's)."""
    cls = type(obj)
    frozen = is_dataclass(cls) and cls.__dataclass_params__.frozen  # type: ignore[attr-defined]
    return frozen and not hasattr(obj, "__dict__") and not copyreg._slotnames(cls)  # type: ignore[attr-defined]


def is_own(cls: type) -> bool:
    """Whether it is the notebook's, or some function's: no module has it under its name."""
    return bool(cls.__flags__ & MADE_WHEN_IMPORTED) and not _should_pickle_by_reference(cls)


def _makes_it_its_own_way(cls: type) -> bool:
    """Whether its `__new__` is the notebook's, and pickle would call that with what a built-in class's takes."""
    return _has_own_new(_owner(cls, "__new__")) and not is_own(_owner(cls, "__getnewargs__", "__getnewargs_ex__"))


def _has_own_new(base: type) -> bool:
    """One that is written in Python: what compiled code has makes its own objects, by whichever name it is known."""
    return is_own(base) and not isinstance(vars(base)["__new__"], BuiltinFunctionType)


def _owner(cls: type, *names: str) -> type:
    return next((base for base in cls.__mro__ if any(name in vars(base) for name in names)), object)


def make_as_built_in(cls: Any, *args: Any) -> Any:
    maker: Any = next(base for base in cls.__mro__ if "__new__" in vars(base) and not _has_own_new(base))
    return maker.__new__(cls, *args)


def generic_state(obj: Any) -> Any:
    found = reduced(obj)
    if isinstance(found, str) or len(found) < 3 or _only_begins(obj):
        return None
    state, items, pairs = (*found[2:5], None, None, None)[:3]
    if state is None and items is None and pairs is None:
        return None
    return state, None if items is None else list(items), None if pairs is None else dict(pairs)


def generic_mark(obj: Any) -> Any:
    """A digest of the state, which is made anew at every look and so has no identity."""
    state = None if own_name(obj) else generic_state(obj)
    return None if state is None else digest(state)


def digest(state: Any) -> Any:
    try:
        return hashlib.blake2b(pickle.dumps(state, 5)).digest()
    except Exception:  # it holds something of the notebook, which plain pickle cannot write: send it every time
        return object()


def fill_generic(obj: Any, state: tuple[Any, Any, Any]) -> None:
    own, items, pairs = state
    if own is not None:
        set_state(obj, own)
    if items is not None:
        obj.clear()
        obj.extend(items)
    if pairs is not None:
        obj.clear()
        for key, value in pairs.items():
            obj[key] = value


GENERIC = Kind(reduce=reduce_generic, state=generic_state, fill=fill_generic, mark=generic_mark)
IMMUTABLE = Kind(reduce=reduce_generic)
REPLACED = Kind(reduce=reduce_generic, replaced=True)
