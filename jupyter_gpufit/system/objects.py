"""All objects of this process, looked at without getting into the way of its other threads.

A tuple that another thread is just making (`tuple(x for x in ...)`) must have one reference, or Python raises a
SystemError there. A list of all objects is a second one, for as long as it is looked through. So all that is done with
it is one call of C, during which no other thread runs, nor is garbage collected: up to Python 3.11 that may be so in
the middle of such a call, and the end of some object lets other threads run. And only their types are looked at:
`isinstance` asks an object that is none for its `__class__`, which may be code of the cell, or, of a dead weak proxy,
an error.
"""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Callable, Iterator
from itertools import chain, compress, repeat, tee
from operator import is_, is_not
from typing import Any

from .collecting import without_collecting

Lists = Iterator[list[Any]]


def kinds() -> set[type]:
    """The types of all objects."""
    with without_collecting():
        found = list(map(type, chain.from_iterable(_lists())))
    return set(found)  # to hash them may run code of a metaclass


def but_tuples() -> list[Any]:
    """All objects but tuples; those of a subclass of theirs are among them."""
    with without_collecting():
        return list(_those(is_not, tuple, *_thrice()))


def of_type(cls: type) -> list[Any]:
    """Those of this very class."""
    with without_collecting():
        return list(_those(is_, cls, *_thrice()))


def _those(wanted: Callable[[Any, Any], bool], cls: type, found: Lists, again: Lists, at_last: Lists) -> Iterator[Any]:
    # The list is tripled and not what is in it: that makes objects on the way.
    # It holds who holds it, so that it stays unless it is emptied before other threads run.
    objects = chain(chain.from_iterable(found), map(list.clear, at_last))
    types = map(type, chain.from_iterable(again))
    return compress(objects, map(wanted, types, repeat(cls)))


def _thrice() -> tuple[Lists, Lists, Lists]:
    one, other, last = tee(_lists(), 3)
    return one, other, last


def _lists() -> Lists:
    """One, made when it is asked for."""
    return map(gc.get_objects, (None,))


def module_of(thing: Any) -> str:
    """The module that a class or function says it is of; empty, as for some compiled classes, where it says none."""
    return str(getattr(thing, "__module__", "") or "")


def is_generator(one: Any) -> bool:
    """Whether it has a state to go on from. By its type: a lazy object makes itself when it is asked for its class."""
    cls = type(one)
    if issubclass(cls, random.Random):
        return not issubclass(cls, random.SystemRandom)
    numpy, torch = sys.modules.get("numpy.random"), sys.modules.get("torch")
    if numpy is not None and issubclass(cls, (numpy.Generator, numpy.RandomState)):
        return True
    return torch is not None and issubclass(cls, torch.Generator)
