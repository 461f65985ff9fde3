"""After a resume, what a user's module has still as its checkpoint had it, is in the notebook the object of before.

A checkpoint is opened in another process, where each object is a new one: what comes back under a module's name is
none that the notebook knows. `from options import args` has given it the old one, and maybe other modules, too.
"""

from __future__ import annotations

import gc
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Collection, Iterable
from types import FrameType
from typing import Any

from .changes import Change
from .holders import own_names
from .own_values import shared_names

Names = Collection[tuple[str, str]]  # modules', with the module


def still(before: dict[tuple[str, str], Any]) -> Names:
    """Of the names that had these objects, those that have them."""
    now = shared_names() if before else {}
    return [name for name, value in before.items() if now.get(name) is value]


def put_back(changes: Iterable[Change], names: Names) -> None:
    """Fill the notebook's objects, and name them in the changes, unless more that came refers to the new ones."""
    known, place_of = set(names), shared_names() if names else {}
    held: list[tuple[dict[Any, Any], str, Any]] = []  # a change's new names, one of them, and what that was here
    for (module, steps), difference in changes:
        if steps or difference is None or difference[0] != "names":
            continue
        anew = difference[1][0]
        held += [(anew, name, place_of[module, name]) for name in anew if {(module, name)} <= known & place_of.keys()]
    pairs = {(id(anew[name]), id(old)) for anew, name, old in held}
    news, olds = Counter(new for new, _ in pairs), Counter(old for _, old in pairs)
    ours = {id(anew) for anew, _, _ in held}
    for anew, name, old in held:
        new = anew[name]
        if news[id(new)] > 1 or olds[id(old)] > 1 or type(old) is not type(new) or old is new or _has_slots(old):
            continue
        _fill(old, new)
        if not any(id(one) not in ours and not isinstance(one, FrameType) for one in gc.get_referrers(new)):
            anew[name] = old


def _fill(old: Any, new: Any) -> None:
    if isinstance(old, (dict, set)):
        kind: Any = next(kind for kind in (OrderedDict, dict, set) if isinstance(old, kind))
        kind.clear(old)
        kind.update(old, new)
        if isinstance(old, defaultdict):
            old.default_factory = new.default_factory
    elif isinstance(old, (list, deque)):
        old.clear()
        old.extend(new)
    held, values = own_names(old), own_names(new)
    if held is not None and values is not None:
        held.clear()
        held.update(values)


def _has_slots(value: Any) -> bool:
    """Whether a part of it is no attribute by name."""
    return any({*_names(vars(cls).get("__slots__", ()))} - {"__dict__", "__weakref__"} for cls in type(value).__mro__)


def _names(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)
