"""Objects of classes written in Python.

A process's snapshot wants the raw `__dict__`: `__getstate__` is made for storing, and drops live state (the `step` that
a scheduler wrapped, the scale of a GradScaler). The dict travels as an object of its own, so `vars(model)` stays the
model's, and changing an attribute is changing a dict.
"""

from __future__ import annotations

import builtins
import copyreg
import functools
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable
from itertools import islice
from types import GetSetDescriptorType, MemberDescriptorType, MethodType
from typing import Any

from ..kind import ATOMS, Kind, Pickler, Reduced, kind_of
from ..refusals import stays
from .generic import GENERIC, IMMUTABLE, MADE_WHEN_IMPORTED, REPLACED, digest, own_name, set_state

_POINTER = 8  # bytes
Attributes = tuple[dict[str, Any] | None, dict[str, Any] | None]  # the __dict__ itself, and the slots' values
_MISSING = object()
_OBJECT: Any = object  # mypy takes a method of the class `object` for one of an object


def find(cls: type) -> Kind | None:
    if is_pythons_own(cls) and cls.__reduce_ex__ is _OBJECT.__reduce_ex__ and not hasattr(cls, "__setstate__"):
        return IMMUTABLE
    if not is_plain(cls):
        return REPLACED if _is_set_once(cls) else GENERIC
    return INSTANCE if cls.__getstate__ is _OBJECT.__getstate__ else STORABLE


def is_pythons_own(cls: type) -> bool:
    """Whether it is built in; what is written in Rust (polars' frames) says so of itself, too."""
    return cls.__module__ == "builtins" and not cls.__flags__ & MADE_WHEN_IMPORTED


def _is_set_once(cls: type) -> bool:
    """Whether a state can be given to a new object only, as pybind11 has it (MuJoCo's data); its enums have none."""
    of_pybind = type(cls).__module__ == "pybind11_builtins"
    return of_pybind and hasattr(cls, "__setstate__") and not hasattr(cls, "__members__")


def is_plain(cls: type) -> bool:
    """Whether objects of this class are their attributes and nothing else."""
    return (
        is_laid_out_plainly(cls)  # a class written in C keeps more: it must know how to pickle it
        and cls.__reduce_ex__ is _OBJECT.__reduce_ex__
        and cls.__reduce__ is _OBJECT.__reduce__
        and cls not in copyreg.dispatch_table
        and not hasattr(cls, "__getnewargs_ex__")
        and not hasattr(cls, "__getnewargs__")
    )


def is_laid_out_plainly(cls: type) -> bool:
    slots = len(slots_of(cls))
    expected = object.__basicsize__ + _POINTER * ((cls.__dictoffset__ > 0) + (cls.__weakrefoffset__ > 0) + slots)
    return cls.__basicsize__ <= expected


def slots_of(cls: type) -> list[str]:
    names: list[str] = copyreg._slotnames(cls)  # type: ignore[attr-defined]
    return names


def attributes(obj: Any) -> Attributes:
    own = _dict_of(obj)
    names = slots_of(type(obj))
    if not names:
        return own, None
    values = ((name, _in_slot(obj, name)) for name in names)
    return own, {name: value for name, value in values if value is not _MISSING}


def _own(obj: Any, name: str, otherwise: Any) -> Any:
    """Never what a class's `__getattr__` finds or raises: pydantic's stand-ins refuse to be asked for anything."""
    try:
        return object.__getattribute__(obj, name)
    except AttributeError:
        return otherwise


def _dict_of(obj: Any) -> Any:
    """None where its class shows something else by that name: Munch has there what it holds as a dictionary."""
    shown = next((vars(base)["__dict__"] for base in type(obj).__mro__ if "__dict__" in vars(base)), None)
    return None if shown is not None and type(shown) is not GetSetDescriptorType else _own(obj, "__dict__", None)


def _in_slot(obj: Any, name: str) -> Any:
    slot = _hidden(type(obj), name)
    if slot is None:
        return _own(obj, name, _MISSING)
    try:
        return slot.__get__(obj)
    except AttributeError:
        return _MISSING


def _hidden(cls: type, name: str) -> Any:
    """A base's slot whose name a subclass uses for something else: mpmath's constants have a property there."""
    found = [vars(base)[name] for base in cls.__mro__ if name in vars(base)]
    if not found or type(found[0]) is MemberDescriptorType:
        return None
    return next((one for one in found if type(one) is MemberDescriptorType), None)


def set_attributes(obj: Any, state: Attributes) -> None:
    own, slots = state
    if own is not None and _dict_of(obj) is not own:
        # The base's own method: a frozen dataclass refuses its own, and nn.Module's does a great deal more.
        object.__setattr__(obj, "__dict__", own)
    if slots is None:
        return
    for name in slots_of(type(obj)):
        hidden = _hidden(type(obj), name)
        if name in slots:
            hidden.__set__(obj, slots[name]) if hidden else object.__setattr__(obj, name, slots[name])
        elif _in_slot(obj, name) is not _MISSING:
            hidden.__delete__(obj) if hidden else object.__delattr__(obj, name)


def make(obj: Any, pickler: Pickler) -> tuple[Any, tuple[Any, ...]]:
    """How to make an object to be filled: by name where a module holds it (a sentinel compared by `is`), else empty."""
    cls = type(obj)
    if (hooks := (_dict_of(obj) or {}).get("_forward_pre_hooks")) is not None:
        pickler.made_anew |= _made_before_forward(vars(obj), hooks)
    name = pickler.name_in_module(obj, cls.__module__)
    return (make_instance, (cls,)) if name is None else (find_or_make, (cls, name))


def find_or_make(cls: type, name: str) -> Any:
    """What the class's module holds. It may hold None yet: some keep their one object from the first use on."""
    found = getattr(sys.modules.get(cls.__module__), name, None)
    kin = isinstance(found, cls) or (issubclass(cls, type(found)) and type(found) is not object)
    return found if kin else make_instance(cls)


def make_instance(cls: type) -> Any:
    if callable(lock_of := getattr(cls, "get_lock", None)) and hasattr(cls, "set_lock"):
        lock_of()  # tqdm's: the first bar of a process makes it for all, and this one may be the first
    return object.__new__(cls)


def instance_state(obj: Any) -> tuple[Any, ...]:
    return type(obj), *attributes(obj)


def fill_instance(obj: Any, state: tuple[Any, ...]) -> None:
    cls, *own = state
    if len(own) > 2:  # the attributes of all instances, which the class itself holds
        owner, name = own[2]
        type.__setattr__(owner, name, own[0])
    if type(obj) is not cls:
        object.__setattr__(obj, "__class__", cls)  # as torch's parametrizations do
    set_attributes(obj, (own[0], own[1]))


def instance_mark(obj: Any) -> Any:
    return None if own_name(obj) else instance_state(obj)


def reduce_instance(obj: Any, pickler: Pickler) -> Reduced:
    if (name := own_name(obj)) is not None:
        return name
    state = instance_state(obj)
    shared = _held_by_class(type(obj), state[1])
    return *make(obj, pickler), state if shared is None else (*state, shared), None, None, fill_instance


def _made_before_forward(own: dict[str, Any], hooks: Any) -> set[int]:
    """What hooks compute of a module's parameters: each says its name, as torch's weight and spectral norms do."""
    names = [getattr(hook, "name", None) for hook in hooks.values()] if isinstance(hooks, dict) else []
    return {id(own[name]) for name in names if isinstance(name, str) and name in own}


def _held_by_class(cls: type, own: Any) -> tuple[type, str] | None:
    """Where a class has the one `__dict__` of all its instances, as accelerate's states have it."""
    for owner in cls.__mro__[:-1]:
        for name in _dicts_of(owner):
            if vars(owner).get(name) is own and own is not None:
                return owner, name
    return None


@functools.lru_cache(maxsize=4096)
def _dicts_of(cls: type) -> tuple[str, ...]:
    return tuple(name for name, value in vars(cls).items() if type(value) is dict and not name.startswith("__"))


INSTANCE = Kind(reduce=reduce_instance, state=instance_state, fill=fill_instance, mark=instance_mark)


# A class with a __getstate__ of its own: used where the raw attributes lead to what cannot travel.
MANY = 1000  # objects looked at: what a getstate leaves out is near


def holds_refused(obj: Any, pickler: Pickler | None = None, *, stored: bool = True) -> bool:
    """Whether what cannot travel is near in its attributes.

    Also a named tuple, where they could be `stored` instead: matplotlib's objects, found by that, are drawn anew from
    what they store, and not from their attributes. Not where nothing makes up for what is left out (a LightningModule's
    trainer).
    """
    cls: type = type(obj)
    stored = stored and _is_made_up_for(cls)
    # Those found to hold nothing such in this crossing, so that a chain is not walked from each link.
    if pickler and id(obj) in pickler.clean:
        return False
    return leads_to_refused(inside(obj, STORABLE), pickler, stored=stored, of=obj)


@functools.lru_cache(maxsize=4096)
def _is_made_up_for(cls: type) -> bool:
    """Whether the class that says what is stored, or one made of it, says how it is taken up again."""
    says = next((base for base in cls.__mro__ if "__getstate__" in vars(base)), object)
    return any("__setstate__" in vars(base) for base in cls.__mro__[: cls.__mro__.index(says) + 1])


def leads_to_refused(
    values: Iterable[Any], pickler: Pickler | None = None, *, stored: bool = True, of: Any = None
) -> bool:
    """The same for some of the attributes `of` an object."""
    clean = pickler.clean if pickler else set()
    known: dict[type, Kind] = {}
    seen, others, spoken = {id(of): None}, deque[Any](), list[Any]()

    def leads_there(todo: deque[Any]) -> bool:
        own: dict[int, None] = {}
        met = []
        while todo and len(seen) + len(own) < MANY:
            value = todo.popleft()
            if id(value) in own or id(value) in seen or id(value) in clean:
                continue
            kind = pickler.kind(type(value)) if pickler else kind_of(type(value), known)
            if (
                (pickler.stays(value) if pickler else stays(value))
                or (kind is GENERIC and (_knows_no_way(type(value), named_tuples=not stored) or _refuses(value)))
                or (kind is IMMUTABLE and _is_of_nowhere(value))
            ):
                return True
            if kind is STORABLE:
                met.append(value)
                continue
            own[id(value)] = None
            todo.extend(inside(value, kind))
        seen.update(own)
        others.extend(met)
        return False

    if leads_there(deque(values)):
        return True
    # What leads there through another of this kind does so no longer, if that one's __getstate__ leaves it out.
    while others and len(seen) < MANY:
        other = others.popleft()
        if id(other) in seen or any(other is one for one, _ in spoken):
            continue
        if not leads_there(deque(inside(other, STORABLE))):
            seen[id(other)] = None
            continue
        try:
            state = other.__getstate__()
        except Exception:
            return True
        spoken.append((other, state))
        if leads_there(deque([state])):
            return True
    clean.update(islice(seen, MANY // 4) if len(seen) >= MANY else seen)  # unfinished, it tells only of the near ones
    return False


def _knows_no_way(cls: type, *, named_tuples: bool) -> bool:
    """Whether it is a class written in C that did not think of pickle; `named_tuples` did."""
    return (
        cls.__reduce_ex__ is _OBJECT.__reduce_ex__
        and cls.__reduce__ is _OBJECT.__reduce__
        and cls.__getstate__ is _OBJECT.__getstate__
        and cls not in copyreg.dispatch_table
        and not (named_tuples and (hasattr(cls, "__getnewargs__") or hasattr(cls, "__getnewargs_ex__")))
        and not is_plain(cls)
    )


def _refuses(value: Any) -> bool:
    """Whether it is of a class of Cython's, to which that gave a way that only says that there is none."""
    if getattr(type(value).__reduce__, "__name__", "") != "__reduce_cython__":
        return False
    try:
        value.__reduce__()
    except TypeError:
        return True
    return False


def _is_of_nowhere(value: Any) -> bool:
    """Whether it is of compiled code that names no module, and does not pickle, as what Pillow's images keep."""
    cls = type(value)
    if not is_pythons_own(cls) or vars(builtins).get(cls.__name__) is cls or cls is type(None):
        return False
    try:
        value.__reduce_ex__(5)
    except TypeError:
        return True
    return False


def inside(obj: Any, kind: Kind) -> Iterable[Any]:
    """What an object would take along, if its attributes travelled as they are; of many alike, the first."""
    if isinstance(obj, list | tuple | set | frozenset):
        return islice(obj, 100)
    if type(obj) in (dict, OrderedDict, defaultdict):
        return islice(list(obj.values()), 100)
    if isinstance(obj, MethodType):
        return (obj.__self__,)
    if kind is INSTANCE or kind is STORABLE:
        own, slots = attributes(obj)
        return [*(own or {}).values(), *(slots or {}).values()]
    return ()


def storable_state(obj: Any, pickler: Pickler | None = None) -> tuple[Any, ...]:
    return (type(obj), None, None, obj.__getstate__()) if holds_refused(obj, pickler) else instance_state(obj)


def storable_mark(obj: Any) -> tuple[Any, ...]:
    own, slots = attributes(obj)
    # Not `own` alone: it need not have come as an object of its own.
    return type(obj), own, slots, dict(own or {}), _told_by_state(obj, own or {})


def _told_by_state(obj: Any, own: dict[str, Any]) -> tuple[tuple[Any, Any], ...]:
    """What only its `__getstate__` tells, beside what stays here: torchrl's counts, in memory that processes share.

    Of what it makes anew each time, a list or an array, nobody could say whether the cell has changed it.
    """
    # Nobody sees these change: a digest tells it.
    of_nowhere = any(_is_of_nowhere(value) and kind_of(type(value), {}) is IMMUTABLE for value in own.values())
    if not of_nowhere and not any(map(stays, own.values())):
        return ()
    try:
        state = obj.__getstate__()
    except Exception:  # it travels otherwise, or not at all
        return ()
    if of_nowhere:
        return (("", digest(state)),)
    told = state.items() if isinstance(state, dict) else ()
    return tuple(
        (key, value) for key, value in told if isinstance(value, ATOMS) and own.get(key, _MISSING) is not value
    )


def fill_storable(obj: Any, state: tuple[Any, ...]) -> None:
    if len(state) == 4:
        set_state(obj, state[3])
    elif state[1] is not _dict_of(obj) and holds_refused(
        obj
    ):  # which stayed here, so that the state is not all there is
        vars(obj).update(state[1] or {})
    else:
        fill_instance(obj, state)


def reduce_storable(obj: Any, pickler: Pickler) -> Reduced:
    return *make(obj, pickler), storable_state(obj, pickler), None, None, fill_storable


STORABLE = Kind(reduce=reduce_storable, state=storable_state, fill=fill_storable, mark=storable_mark)
