"""Random generators that libraries keep for themselves, as imgaug does: a seed set in an earlier cell holds there, too.

They are seeded and drawn from in place, where no name of a module changes; so all of them go, with their states.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from types import ModuleType
from typing import Any

from ..graph.kinds.draws import put_state, read_state
from ..system.objects import is_generator, module_of
from .holders import Place, at, entries, own_names, root
from .imports import Watch
from .past_modes import past_modes

State = tuple[Place, Any]
_HOMES = (ModuleType, type)
_STANDARD = frozenset({*sys.stdlib_module_names, "builtins"})


def states(watch: Watch, packages: Container[str]) -> list[State]:
    """Those of these packages; the global ones of Python, NumPy and torch go by themselves (generators.py)."""
    met = {id(one) for one in _of_all()}
    found: list[State] = []
    sorts: dict[type, str] = {}
    with past_modes():
        for number in watch.numbers():
            holder = watch.holder(number)
            if holder is not None and root(holder.place[0]) in packages:
                for place, one in _within(holder.place, holder.obj, sorts):
                    if id(one) not in met:
                        met.add(id(one))
                        with suppress(Exception):  # of a class that tells no state: each process has its own
                            found.append((place, read_state(one)))
    return found


def put(found: Iterable[State], *, load: bool) -> None:
    """`load`: import modules that are not here."""
    with past_modes():
        for place, state in found:
            # Made another way in this process, which then has its own.
            with suppress(LookupError, AttributeError, TypeError, ValueError):
                put_state(at(place, load=load), state)


def _within(place: Place, holder: Any, sorts: dict[type, str]) -> Iterator[tuple[Place, Any]]:
    """In what it holds, and in the objects there: imgaug makes its own when it is first asked for."""
    deeper = issubclass(type(holder), _HOMES)
    for step, value in entries(holder):
        cls = type(value)
        sort = sorts.get(cls)
        if sort is None:
            sort = sorts[cls] = _sort(value)
        if sort == "generator":
            yield (place[0], (*place[1], step)), value
        elif deeper and sort == "object":
            yield from _within((place[0], (*place[1], step)), value, sorts)


def _sort(value: Any) -> str:
    """Of all values of its type."""
    if is_generator(value):
        return "generator"
    of_python = root(module_of(type(value))) in _STANDARD or issubclass(type(value), _HOMES)
    return "" if of_python or own_names(value) is None else "object"


def _of_all() -> Iterator[Any]:
    yield random.seed.__self__  # type: ignore[attr-defined]
    if "numpy.random" in sys.modules:
        yield sys.modules["numpy.random"].mtrand._rand
    if "torch" in sys.modules:
        yield sys.modules["torch"].default_generator
