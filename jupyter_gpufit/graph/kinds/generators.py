"""Generators: those that have not begun are made again from their function and its arguments.

One in use goes as what it holds and the place where it is suspended; see ../midway.py. A generator expression with one
loop goes on over its iterator.
"""

from __future__ import annotations

from types import GeneratorType
from typing import Any

from .. import midway
from ..kind import Kind, Pickler, Reduced
from ..refusals import GENERATOR

_tried: set[int] = set()  # of which it is tried out what can travel, by their id()


def find(cls: type) -> Kind | None:
    # Sent anew every time: that it has begun since cannot be seen from outside, nor undone.
    return Kind(reduce=reduce_generator, replaced=True) if cls is GeneratorType else None


def reduce_generator(generator: Any, pickler: Pickler) -> Reduced:
    if generator.gi_frame is None:
        return midway.make_ended, ()
    if (recipe := midway.unmade(generator)) is not None:
        return midway.make_generator, recipe
    if (parts := midway.expression(generator)) is not None:
        return midway.make_expression, parts
    if (state := midway.sent(generator)) is None or (pickler.back and _stays(generator, state, pickler)):
        return pickler.refuse(generator, GENERATOR)
    pickler.take_source(state.filename)
    pickler.want_names(state.names, generator.__name__)
    return (
        midway.make_parked,
        (generator.__name__, generator.__qualname__),
        tuple(state),
        None,
        None,
        midway.fill_parked,
    )


def _stays(generator: Any, state: midway.State, pickler: Pickler) -> bool:
    """Whether it holds what cannot leave the worker: the notebook's own is better than one with a part missing."""
    if id(generator) in _tried:
        return False  # it leads to itself
    _tried.add(id(generator))
    try:
        trial = pickler.beside()
        trial.dump(tuple(state))
    finally:
        _tried.discard(id(generator))
    return bool(trial.refusals)
