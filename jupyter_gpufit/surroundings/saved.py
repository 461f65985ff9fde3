"""The surroundings of a training that is saved, and goes on in another process."""

from __future__ import annotations

import gc
import pickle
import sys
import time
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from threading import local
from types import FrameType, ModuleType
from typing import Any

from ..graph.kind import TookTooLong
from . import added_names, magics, own_generators, own_values, twins
from .changes import Change, put, put_object, values_of, without
from .holders import Place, at, root
from .imports import import_causes, import_quietly
from .own_imports import libraries_of
from .travel import Came, put_taken, watch

_LONGEST = 2.0  # seconds to look whether one holder's changes can be saved
_TOO_LARGE: set[str] = set()  # packages of which one took longer: a library that compiles, as numba


def saved(came: Came, can_be_saved: Callable[..., bool], say: Callable[[str], None]) -> dict[str, Any]:
    """What a checkpoint holds of them: what has changed in the packages of which something came."""
    packages = came.packages | libraries_of(came.packages)  # the cell may have imported them since
    changed: list[tuple[Any, ...]] = []
    for number, difference in watch.differences().items():
        holder = watch.holder(number)
        if holder is None or difference is None:
            continue
        package = root(holder.place[0])
        if package not in packages or package in _TOO_LARGE:
            continue
        until = time.monotonic() + _LONGEST
        try:
            values = {id(value) for _, value in values_of(difference) if not can_be_saved(value, until)}
            kept = without(difference, values)
            if isinstance(holder.obj, (type, ModuleType, local)):
                changed.append((holder.place, kept))
            elif can_be_saved(holder.obj, until):
                changed.append((holder.place, holder.obj, kept))
        except TookTooLong:
            _TOO_LARGE.add(package)
            changed = [one for one in changed if root(one[0][0]) != package]
            say(
                f"What has changed inside of {package} since it was imported is in no checkpoint: to look through it"
                f" takes too long. After a resume, {package} is as it is imported."
            )
    changed += _of_own_modules(packages, changed, can_be_saved)
    changed += _as_set(came.assigned, can_be_saved)
    return {
        "assigned": came.assigned,
        "argv": list(sys.argv),
        "process": came.process,
        "packages": sorted(packages),
        "causes": came.causes,
        "drew": sorted(watch.drew | watch.drew_before),
        "reached": came.reached,
        "magics": came.magics,
        "taken": came.taken,
        "settings": twins.now(came.settings),
        "changed": [*changed, *watch.added.changes(can_be_saved)],
        "drawn from": own_generators.states(watch, packages),
    }


def _of_own_modules(
    packages: Container[str], changed: Iterable[tuple[Any, ...]], can_be_saved: Callable[..., bool]
) -> list[Change]:
    """Under every name that one of them has for it, what holds arrays, and what has changed."""
    ids = {id(at((place[0], place[1][:1]))) for place, *_ in changed if place[1] and own_values.is_in_one(place[0])}
    found: list[Change] = []
    for place, name, value in (*own_values.of_modules(packages), *own_values.named(ids)):
        with suppress(TookTooLong):
            if not isinstance(value, (type, ModuleType)) and can_be_saved(value, time.monotonic() + _LONGEST):
                found.append((place, ("names", ({name: value}, []))))
    return found


def _as_set(assigned: Iterable[tuple[Place, str]], can_be_saved: Callable[[Any], bool]) -> Iterator[Change]:
    """Attributes that earlier cells have set, with the values that they have by now."""
    for place, name in assigned:
        with suppress(LookupError):
            value = at((place[0], (*place[1], (".", name))), load=False)
            if can_be_saved(value):
                yield place, ("names", ({name: value}, []))


def restored(found: dict[str, Any]) -> Came:
    """Set it here; as in `arrived`, how it was before the cell."""
    remarks: list[str] = []
    watch.drew_before.update(found.get("drew", ()))
    import_quietly(found.get("reached", ()))
    import_causes(found["causes"], remarks)
    held = _held([entry for entry in found["changed"] if entry[2:]])
    for place, what, *change in found["changed"]:
        difference = what if isinstance(what, tuple) else None if id(what) in held else next(iter(change), None)
        if difference is not None:
            remarks.append(put((place, difference), load=True))
        elif what is not None:
            remarks.append(put_object(place, what))
    own_generators.put(found.get("drawn from", ()), load=True)
    sys.argv[:] = found["argv"]
    settings = tuple(found.get("settings", ()))
    remarks += twins.put(settings, load=True)
    taken, told = tuple(found.get("taken", ())), tuple(found.get("magics", ()))
    remarks += [*map(put_taken, taken), magics.put(told)]
    said, reached = tuple(one for one in remarks if one), tuple(found.get("reached", ()))
    packages = frozenset(found["packages"])
    signals = found.get("signals", {})
    assigned_before = tuple(found.get("assigned", ()))
    came = Came(found["process"], {}, packages, found["causes"], said, reached, told, taken, assigned_before, settings)
    methods = tuple(value for _, _, value in added_names.methods())
    arrays = own_values.arrays_in()
    plain = {name: value for name, value in own_values.shared_names().items() if not arrays(value)}
    return replace(came, signals=signals, methods=methods, restored=plain)


def _held(entries: list[tuple[Any, ...]]) -> set[int]:
    """The id() of those that something of the training refers to, and that must therefore be what the module has.

    The others stay as this process made them, and change: a module may have shown its dict to others when it was
    imported, as fsspec does with its registry.
    """
    objects = tuple(entry[1] for entry in entries)
    wanted = {*map(id, objects)}
    ours = {*map(id, entries), id(objects)}
    if not wanted:
        return set()
    found: set[int] = set()
    for referrer in gc.get_referrers(*objects):
        if id(referrer) not in ours and not isinstance(referrer, (FrameType, pickle.Unpickler)):
            found.update(id(one) for one in gc.get_referents(referrer) if id(one) in wanted)
    return found
