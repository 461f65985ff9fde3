"""What wrapt puts around functions and objects (sacred's captured functions): proxies that hide what they keep.

Each answers as what is inside of it. What it is itself is asked of its base in compiled code, and its own attributes,
which it shows to nobody, of the collector. Loaded only where wrapt is.
"""

from __future__ import annotations

import gc
from importlib import import_module
from typing import Any

from ..kind import Kind, Pickler, Reduced
from .generic import own_name

_COMPILED = "_wrappers"  # as its classes say, which are found in wrapt
_KEPT = "_self_instance _self_wrapper _self_enabled _self_binding _self_parent _self_owner".split()


def find(cls: type) -> Kind | None:
    if any(base.__module__ == _COMPILED and base.__name__ == "ObjectProxy" for base in cls.__mro__):
        return Kind(reduce=reduce_wrapped, state=wrapped_state, fill=fill_wrapped)
    return None


def reduce_wrapped(obj: Any, pickler: Pickler) -> Reduced:
    if (name := own_name(obj)) is not None:
        return name
    cls = type(obj)
    made = (cls.__name__, None) if cls.__module__ == _COMPILED else ("", cls)
    return make_wrapped, made, wrapped_state(obj), None, None, fill_wrapped


def wrapped_state(obj: Any) -> tuple[Any, ...]:
    base = _base(type(obj))
    kept = tuple(getattr(base, name).__get__(obj) for name in _KEPT) if hasattr(base, _KEPT[0]) else ()
    return dict(_own(obj)), base.__getattribute__(obj, "__wrapped__"), kept


def make_wrapped(name: str, cls: Any) -> Any:
    """Empty: what is inside may lead to it."""
    cls = cls or getattr(import_module("wrapt"), name)
    return cls.__new__(cls)


def fill_wrapped(obj: Any, state: tuple[Any, ...]) -> None:
    own, inside, kept = state
    _base(type(obj)).__init__(obj, inside, *kept)
    _own(obj).clear()
    _own(obj).update(own)


def _base(cls: type) -> Any:
    """That of all wrappers of functions, or of all proxies."""
    ours = [base for base in cls.__mro__ if base.__module__ == _COMPILED]
    return next((base for base in ours if base.__name__ == "_FunctionWrapperBase"), ours[-1])


def _own(obj: Any) -> dict[str, Any]:
    """Its attributes of its own: the first dictionary to which it refers."""
    return next(one for one in gc.get_referents(obj) if type(one) is dict)
