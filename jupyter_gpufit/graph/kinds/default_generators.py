"""The generators that `random` and `numpy.random` draw from: `from random import sample` keeps a method of one.

Each process has its own, whose state goes along by itself (surroundings/generators.py). A copy would begin alike, and
draw beside it.
"""

from __future__ import annotations

from typing import Any

from ..kind import Kind, Pickler, Reduced
from .generic import fill_generic, find_in_module, generic_mark, generic_state, reduce_generic

_CLASSES = {("random", "Random"), ("numpy.random.mtrand", "RandomState")}


def find(cls: type) -> Kind | None:
    ours = any((base.__module__, base.__name__) in _CLASSES for base in cls.__mro__)
    return GENERATOR if ours else None


def reduce_generator(generator: Any, pickler: Pickler) -> Reduced:
    module = type(generator).__module__
    name = pickler.name_in_module(generator, module)
    return reduce_generic(generator, pickler) if name is None else (find_in_module, (module, name))


GENERATOR = Kind(reduce=reduce_generator, state=generic_state, fill=fill_generic, mark=generic_mark)
