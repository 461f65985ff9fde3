"""Weak references, what is called when their object goes, and the dicts and sets that are made of them."""

from __future__ import annotations

import weakref
from typing import Any

from ..kind import Kind, Pickler, Reduced
from ..refusals import is_of_its_own_kind


class _Gone:
    def was(self) -> None:
        """What a reference to a method was to."""


class Called:
    """What a weak reference calls. It is given later than the reference is made: it may lead to that itself."""

    __slots__ = ("what",)

    def __init__(self) -> None:
        self.what: Any = None

    def __call__(self, *args: Any) -> None:
        if self.what is not None:
            self.what(*args)


def find(cls: type) -> Kind | None:
    if issubclass(cls, weakref.ref):
        return Kind(reduce=reduce_reference)
    return _KINDS.get(cls)


def reduce_reference(obj: Any, pickler: Pickler) -> Reduced:
    if is_of_its_own_kind(obj):
        thing = f"a {type(obj).__qualname__}, a weak reference of its own kind. Make it inside the cell."
        return pickler.refuse(obj, thing)
    called = _called_by(obj)
    called = called.what if isinstance(called, Called) else called
    if isinstance(obj, weakref.WeakMethod):
        return make_weak_method, (obj(),), called, None, None, fill_reference
    if called is None:
        return make_reference, (obj(),)
    return make_reference, (obj(), True), called, None, None, fill_reference


def _called_by(reference: Any) -> Any:
    """What a reference was told to call; one to a method has a function of its own, which knows it."""
    called = reference.__callback__
    if called is not None and isinstance(reference, weakref.WeakMethod):
        cells = dict(zip(called.__code__.co_freevars, called.__closure__, strict=True))
        return cells["callback"].cell_contents
    return called


def make_reference(target: Any, calls: bool = False) -> Any:
    return weakref.ref(_Gone() if target is None else target, *([Called()] if calls else []))


def make_weak_method(method: Any) -> Any:
    return weakref.WeakMethod(_Gone().was if method is None else method, Called())


def fill_reference(reference: Any, called: Any) -> None:
    if isinstance(given := _called_by(reference), Called):  # else its object is gone
        given.what = called


def reduce_proxy(obj: Any, pickler: Pickler) -> Reduced:
    return weakref.proxy, (obj.__repr__.__self__,)  # the one thing a proxy has that leads to its object


def reduce_weak(obj: Any, pickler: Pickler) -> Reduced:
    """Weak dicts and sets: what is alive now."""
    return make_weak, (type(obj),), weak_state(obj), None, None, fill_weak


def make_weak(cls: type) -> Any:
    return cls()


def weak_state(obj: Any) -> Any:
    return list(obj) if isinstance(obj, weakref.WeakSet) else dict(obj)


def fill_weak(obj: Any, state: Any) -> None:
    obj.clear()
    obj.update(state)


_KINDS: dict[type, Kind] = {
    weakref.ProxyType: Kind(reduce=reduce_proxy),
    weakref.CallableProxyType: Kind(reduce=reduce_proxy),
    weakref.WeakKeyDictionary: Kind(reduce=reduce_weak, state=weak_state, fill=fill_weak, hashes=True),
    weakref.WeakValueDictionary: Kind(reduce=reduce_weak, state=weak_state, fill=fill_weak, hashes=True),
    weakref.WeakSet: Kind(reduce=reduce_weak, state=weak_state, fill=fill_weak, hashes=True),
}
