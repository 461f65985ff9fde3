"""All objects of this process, looked at without getting into the way of its other threads.

A tuple that another thread is just making (`tuple(x for x in ...)`) must have one reference, or Python raises a
SystemError there. A list of all objects is a second one, for as long as it is looked through. So all that is done with
it is one call of C, during which no other thread runs.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import chain, filterfalse
from typing import Any


def kinds() -> set[type]:
    """The types of all objects."""
    found = list(map(type, _all()))
    return set(found)  # to hash them may run code of a metaclass


def but_tuples() -> list[Any]:
    """All objects but tuples."""
    return list(filterfalse(tuple.__instancecheck__, _all()))


def _all() -> Iterator[Any]:
    return chain.from_iterable(map(gc.get_objects, (None,)))
