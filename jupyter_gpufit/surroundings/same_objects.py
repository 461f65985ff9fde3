"""After a resume, what a user's module has still as its checkpoint had it, is in the notebook the object of before.

A checkpoint is opened in another process, where each object is a new one: what comes back under a module's name is
none that the notebook knows. `from options import args` has given it the old one, and maybe other modules, too.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Collection, Iterable
from types import FrameType
from typing import Any

from .changes import Change
from .holders import own_names
from .own_values import shared_names

Names = Collection[tuple[str, str]]  # modules', with the module


def still(before: dict[tuple[str, str], Any]) -> Names:
    """Of the names that had these objects, those that have them."""
    now = shared_names()
    return [name for name, value in before.items() if now.get(name) is value]


def put_back(changes: Iterable[Change], names: Names) -> None:
    """Fill the notebook's objects, and name them in the changes, unless more that came refers to the new ones."""
    known, place_of = set(names), shared_names()
    held: list[tuple[dict[Any, Any], str, Any]] = []  # a change's new names, one of them, and what that was here
    for (module, steps), difference in changes:
        if steps or difference is None or difference[0] != "names":
            continue
        anew = difference[1][0]
        held += [(anew, name, place_of[module, name]) for name in anew if {(module, name)} <= known & place_of.keys()]
    olds: dict[int, list[Any]] = {}
    for anew, name, old in held:
        seen = olds.setdefault(id(anew[name]), [])
        if all(one is not old for one in seen):
            seen.append(old)
    ours = {id(anew) for anew, _, _ in held}
    for anew, name, old in held:
        new = anew[name]
        if len(olds[id(new)]) != 1 or type(old) is not type(new) or old is new:
            continue
        _fill(old, new)
        if not any(id(one) not in ours and not isinstance(one, FrameType) for one in gc.get_referrers(new)):
            anew[name] = old


def _fill(old: Any, new: Any) -> None:
    if isinstance(old, (dict, set)):
        kind: Any = dict if isinstance(old, dict) else set
        kind.clear(old)
        kind.update(old, new)
    elif isinstance(old, (list, deque)):
        old.clear()
        old.extend(new)
    held, values = own_names(old), own_names(new)
    if held is not None and values is not None:
        held.clear()
        held.update(values)
