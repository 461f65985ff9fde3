"""Whether what a variable has at a safe point is read again; ../reading/unread.py says how a text is followed."""

from __future__ import annotations

import ast
import gc
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ..reading.unread import is_read, is_used_later
from ..values import Unit, hidden
from .standing import Taken


def is_unread(
    obj: Any, taken: Sequence[Taken], text_of: Callable[[Unit], list[ast.stmt]], trees: list[ast.Module]
) -> bool:
    """Whether nothing has an object but variables, all of which get another value before they are read.

    `trees`: all whose functions read the notebook's variables.
    """
    gc.unfreeze()  # what was there before the job may hold it, too; nobody is told of what is frozen
    holders = gc.get_referrers(obj) if not weakref.getweakrefcount(obj) else [None]
    known, names = set(), []
    for one in taken:
        for variables in _variables(one):
            known.add(id(variables))
            # No expression with a scope of its own: its cell would be one more that has the object.
            for name, value in list(variables.items()):
                if value is obj:
                    names.append((name, one))
    only_they = bool(names) and {*map(id, holders)} <= known
    if not only_they:
        return False
    for name, one in names:
        body = text_of(one[1].unit)
        if hidden(name) or is_used_later(trees if _is_outermost(one) else body, name):
            return False
        if is_read(body, one[1].unit.lines[one[0].pc], name, calling=one is not taken[-1]):
            return False
    return True


def _variables(one: Taken) -> list[Any]:
    record, _, standing = one
    return [standing.f_globals] if _is_outermost(one) else [record.locals]


def _is_outermost(one: Taken) -> bool:
    """Whether its variables are globals."""
    return one[1].unit.kind in ("cell", "text")
