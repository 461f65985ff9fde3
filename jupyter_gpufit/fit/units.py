"""How a module of a model is named: by its model's looks and its path there.

A trial run and the run itself are two processes, and a resumed job is a third with other objects. What they have in
common is what a model looks like: its class, and the names and shapes of its parameters.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

_known: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


def looks_of(model: Any) -> str:
    """The same for all models of the same class, with parameters of the same names and shapes."""
    try:
        known = _known.get(model)
    except TypeError:  # its class compares by value, and has no hash
        known = None
    if known is None:
        named = list(_named(model))
        lines = [f"{name} {tuple(p.shape)}" for name, p in named if not _is_lazy(p)]
        text = "\n".join([type(model).__qualname__, *lines])
        known = hashlib.sha256(text.encode()).hexdigest()[:16]
        with suppress(TypeError):
            if not any(_is_lazy(p) for _, p in named):
                _known[model] = known
    return known


def _named(model: Any) -> Iterator[tuple[str, Any]]:
    """Its parameters; none of a class that has put another kind of table in the place of torch's (EvolveGCN)."""
    with suppress(AttributeError):
        yield from model.named_parameters()


def _is_lazy(p: Any) -> bool:
    """Whether its shape comes with its first batch."""
    return hasattr(p, "materialize")
