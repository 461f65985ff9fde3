"""What has changed in a holder since a picture was taken of it, and the same change made in another process.

Only the difference is told: what a library made when it was imported is its own there, and stays so.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from operator import is_
from types import FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

from ..system.objects import module_of
from .holders import OWN, Place, at, beside, in_words, is_of_python, own_names

# Made by Python for each class or module, or a cache of it.
_OF_PYTHON = frozenset({"_abc_impl", "__dict__", "__weakref__", "__doc__", "__abstractmethods__", "__annotations__"})
KEPT = ("__defaults__", "__kwdefaults__", "__closure__")  # of a function, beside its attributes
_OURS = __package__.partition(".")[0] + "."  # what this package has put there, each process has of itself
_MISSING: Any = object()
_BASES: tuple[Any, ...] = (dict, list, set, deque)

# (form, what): "names" ({name: value}, [gone]); "items" [(is new, value or its old index)]; "members" ([new], [gone])
Difference = tuple[str, Any]
Change = tuple[Place, Difference]


class ChangedHolder:
    """One holder, kept alive so that its id() stays its own, and what it held when it was looked at."""

    __slots__ = ("_view", "obj", "picture", "place")

    def __init__(self, place: Place, obj: Any, then: Any = None) -> None:
        self.place, self.obj = place, obj
        self._view: Any = _view(obj)
        self.picture: Any = picture(obj) if then is None else then

    def __len__(self) -> int:
        view = self._view
        base = next((one for one in _BASES if isinstance(view, one)), type(view))
        return int(base.__len__(view))

    def difference(self) -> Difference | None:
        """None: it is as it was."""
        then, now = self.picture, self._view
        if type(then) is dict:
            base: Any = dict if isinstance(now, dict) else MappingProxyType
            values, names = base.values(now), base.__iter__(now)
            if len(self) == len(then) and all(map(is_, then.values(), values)) and all(map(is_, then, names)):
                return None
            attributes, module = not isinstance(self.obj, dict), isinstance(self.obj, ModuleType)
            return _of_names(then, picture(self.obj), attributes=attributes, module=module)
        if type(then) is list:
            base = list if isinstance(now, list) else deque
            if len(self) == len(then) and all(map(is_, then, base.__iter__(now))):
                return None
            return "items", _of_items(then, picture(self.obj))
        return _of_members(then, picture(self.obj))

    def absorb(self, count: int) -> None:
        """Let the newest `count` entries belong to the picture: an import made them, and will elsewhere."""
        if type(self.picture) is dict:
            for name in list(islice(reversed(picture(self.obj)), count)):
                self.picture[name] = self._entry(name)
        elif type(self.picture) is list:
            self.picture += picture(self.obj)[-count:]
        else:
            self.picture |= picture(self.obj)

    def _entry(self, name: Any) -> Any:
        return dict.__getitem__(self._view, name) if isinstance(self._view, dict) else self._view[name]


def _view(holder: Any) -> Any:
    """What shows its contents at any time, by the methods of the class itself."""
    if isinstance(holder, (dict, list, set, deque)):
        return holder
    return type.__getattribute__(holder, "__dict__") if isinstance(holder, type) else own_names(holder)


def picture(holder: Any) -> Any:
    """A copy of its contents. By the base's own methods: a library's dict may import a module for each of its keys."""
    if isinstance(holder, dict):
        return dict(dict.items(holder))
    if isinstance(holder, list):
        return list(list.__iter__(holder))
    if isinstance(holder, set):
        return set(set.__iter__(holder))
    if isinstance(holder, deque):
        return list(deque.__iter__(holder))
    return dict(own_names(holder) or {})


def _of_members(then: set[Any], now: set[Any]) -> Difference | None:
    old, new = {id(one) for one in then}, {id(one) for one in now}
    if old == new:
        return None
    return "members", ([one for one in now if id(one) not in old], [one for one in then if id(one) not in new])


def _of_names(then: dict[Any, Any], now: dict[Any, Any], *, attributes: bool, module: bool) -> Difference | None:
    def counts(name: Any, value: Any) -> bool:
        if attributes and (name in _OF_PYTHON or is_of_python(name)):
            return False
        if module and isinstance(value, ModuleType):
            return False  # a submodule that was imported
        made_by = value if isinstance(value, (FunctionType, MethodType)) else type(value)
        return not module_of(made_by).startswith(_OURS)

    anew = {n: value for n, value in now.items() if then.get(n, _MISSING) is not value and counts(n, value)}
    gone = [name for name, value in then.items() if name not in now and counts(name, value)]
    return ("names", (anew, gone)) if anew or gone else None


def _of_items(then: list[Any], now: list[Any]) -> list[tuple[bool, Any]]:
    places = {id(one): index for index, one in enumerate(then)}
    return [(False, places[id(one)]) if id(one) in places else (True, one) for one in now]


def same(one: Difference | None, other: Difference | None) -> bool:
    """Whether two differences from one picture show the same."""
    if one is None or other is None or one[0] != other[0]:
        return one is other
    a, b = list(_parts(one)), list(_parts(other))
    return len(a) == len(b) and all(map(is_, a, b))


def _parts(found: Difference) -> Iterator[Any]:
    form, what = found
    if form == "names":
        for name, value in what[0].items():
            yield from (name, value)
        yield from what[1]
    elif form == "items":
        for is_new, value in what:
            yield from (is_new, value)
    else:
        for members in what:
            yield from sorted(members, key=id)


def beyond(before: Difference | None, now: Difference | None, then: Any) -> Difference | None:
    """What to tell whoever has `before` already: `now`, and what was taken back of it. `then`: the picture of both."""
    if before is None or same(before, now):
        return now
    if before[0] == "items":
        return now or ("items", [(False, index) for index in range(len(then))])
    anew, gone = now[1] if now is not None else (type(before[1][0])(), [])
    if before[0] == "names":
        taken_back = [name for name in before[1][0] if name not in anew and name not in then]
        return "names", (anew, list(dict.fromkeys((*gone, *taken_back))))
    kept = {id(one) for one in anew}
    return "members", (anew, [*gone, *(one for one in before[1][0] if id(one) not in kept)])


def absorb(holder: ChangedHolder, before: Difference | None) -> None:
    """Let what has changed since `before` belong to the picture, and `before` remain a change.

    For what an import did: whoever imports the same has it.
    """
    now = holder.difference()
    if same(before, now):
        return
    if before is None:
        holder.picture = picture(holder.obj)
    elif before[0] == "names":
        mine, gone = before[1]
        fresh = picture(holder.obj)
        was_new = {name for name in mine if name not in holder.picture and fresh.get(name, _MISSING) is mine[name]}
        kept = {name: holder.picture[name] for name in (*mine, *gone) if name in holder.picture}
        holder.picture = {name: value for name, value in fresh.items() if name not in was_new} | kept


# The other process ---------------------------------------------------------------------------------------------------


def put(change: Change, *, load: bool) -> str:
    """Make a change here; a sentence where that cannot be. `load`: import its module where it is not loaded."""
    place, (form, what) = change
    try:
        holder = at(place, load=load)
        _PUTTING[form](holder, what)
    except LookupError:
        return "" if not load else f"{in_words(place)} is not there in this process, and what cells set in it is lost."
    except Exception as error:
        return f"{in_words(place)} cannot be set in this process ({type(error).__name__}: {error})."
    return ""


def put_object(place: Place, obj: Any) -> str:
    """Let this very object stand at a place, as it did in the process that goes on here; a sentence if it cannot."""
    module, steps = place
    try:
        parent = at((module, steps[:-1]))
        kind, key = steps[-1]
        if steps[-1] == OWN:
            object.__setattr__(parent, key, obj)
        elif kind == "[]":
            parent[key] = obj
        else:
            attributes = beside(parent)
            _put_names(parent if attributes is None else attributes, ({key: obj}, []))
    except Exception as error:
        return f"{in_words(place)} cannot be set in this process ({type(error).__name__}: {error})."
    return ""


def _put_names(holder: Any, what: tuple[dict[Any, Any], list[Any]]) -> None:
    anew, gone = what
    if isinstance(holder, dict):
        base: Any = OrderedDict if isinstance(holder, OrderedDict) else dict
        for name, value in anew.items():
            base.__setitem__(holder, name, value)
        for name in gone:
            base.pop(holder, name, None)
    elif isinstance(holder, type):
        for name, value in anew.items():
            type.__setattr__(holder, name, value)
        for name in gone:
            if name in vars(holder):
                type.__delattr__(holder, name)
    elif isinstance(holder, FunctionType) and anew.keys() <= set(KEPT):
        keep(holder, anew)
    else:
        own = own_names(holder)
        assert own is not None, "it has no attributes"
        own.update(anew)
        for name in gone:
            own.pop(name, None)


def kept_by(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """What its defaults and its closure hold, which are no attributes as others are."""
    yield "__defaults__", function.__defaults__
    yield "__kwdefaults__", function.__kwdefaults__
    cells = function.__closure__ or ()
    with suppress(ValueError):  # one of them is empty
        yield "__closure__", tuple(cell.cell_contents for cell in cells)


def keep(function: FunctionType, kept: Mapping[str, Any]) -> None:
    for name, value in kept.items():
        if name != "__closure__":
            setattr(function, name, value)
            continue
        for cell, one in zip(function.__closure__ or (), value, strict=True):
            cell.cell_contents = one


def _put_items(holder: Any, what: list[tuple[bool, Any]]) -> None:
    old = picture(holder)
    assert type(old) is list, "it is no list"
    items = [value if is_new else old[value] for is_new, value in what if is_new or value < len(old)]
    base: Any = deque if isinstance(holder, deque) else list
    base.clear(holder)
    base.extend(holder, items)


def _put_members(holder: Any, what: tuple[list[Any], list[Any]]) -> None:
    set.update(holder, what[0])
    set.difference_update(holder, what[1])


def values_of(found: Difference) -> Iterator[tuple[Any, Any]]:
    """What it brings, each with the name or key that it goes by, if it has one."""
    form, what = found
    if form == "names":
        yield from what[0].items()
    elif form == "items":
        yield from (("", value) for is_new, value in what if is_new)
    else:
        yield from (("", value) for value in what[0])


def without(found: Difference, refused: set[int]) -> Difference | None:
    """A difference less the values with these ids; None: nothing is left, or a list would no longer be in order."""
    form, what = found
    if not refused:
        return found
    if form == "names":
        anew = {name: value for name, value in what[0].items() if id(value) not in refused}
        return ("names", (anew, what[1])) if anew or what[1] else None
    if form == "items":
        kept = [(is_new, value) for is_new, value in what if not (is_new and id(value) in refused)]
        return ("items", kept)
    return "members", ([value for value in what[0] if id(value) not in refused], what[1])


_PUTTING: dict[str, Callable[[Any, Any], None]] = {"names": _put_names, "items": _put_items, "members": _put_members}
