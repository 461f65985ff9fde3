"""How to take a reply back: what it was to change, as it was.

A failed training brings what it had computed, and is resumed from a checkpoint before that. What comes then tells the
difference to what was *shipped*: a list that is empty again is not mentioned, and would keep what the failed one put
into it. So the earlier reply is taken back before the next one of the same job is put in place.

Not covered: what the notebook did in between to objects that the earlier reply had changed; it is lost.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from .kind import Kind, kind_of, no_state

Namespace = dict[str, Any]
_NOTHING = object()


@dataclass
class Undo:
    """To be made before a reply is put in place, step by step, and run at most once."""

    _objects: list[tuple[Callable[[Any, Any], None], Any, Any, bool]] = field(default_factory=list)
    _names: list[tuple[str, Callable[[], Any], Any]] = field(default_factory=list)  # what it came to be, and was

    def note_objects(self, objects: Iterable[Any]) -> None:
        known: dict[type, Kind] = {}
        for obj in objects:
            kind = kind_of(type(obj), known)
            if kind.state is no_state:
                continue
            try:
                self._objects.append((kind.fill, obj, kind.state(obj), kind.hashes))
            except Exception:  # one that cannot say how it is stays as the next reply leaves it
                continue

    def note_names(self, namespace: Namespace, bound: Namespace, deleted: Iterable[str]) -> None:
        made = {**bound, **dict.fromkeys(deleted, _NOTHING)}
        self._names += [(name, _known_again(value), namespace.get(name, _NOTHING)) for name, value in made.items()]

    def run(self, namespace: Namespace) -> None:
        """Names that the notebook has bound to something else since are its own."""
        for fill, obj, state, _ in sorted(self._objects, key=lambda one: one[3]):
            try:
                fill(obj, state)
            except Exception:
                continue
        for name, made, before in self._names:
            if namespace.get(name, _NOTHING) is not made():
                continue
            if before is _NOTHING:
                namespace.pop(name, None)
            else:
                namespace[name] = before
        self.forget()

    def then(self, before: Undo) -> Undo:
        """The names of both, this one's first: its objects are new ones, of which nobody else knows."""
        return Undo(_names=[*self._names, *before._names])

    def forget(self) -> None:
        self._objects, self._names = [], []


def _known_again(value: Any) -> Callable[[], Any]:
    """What gives the value as long as it is there: what the notebook deletes must not be kept for this."""
    try:
        return weakref.ref(value)
    except TypeError:  # numbers, texts, lists
        return lambda: value
