"""How a module of a model is named: by its model's looks and its path there.

A trial run and the run itself are two processes, and a resumed job is a third with other objects. What they have in
common is what a model looks like: its class, and the names and shapes of its parameters.
"""

from __future__ import annotations

import hashlib
import weakref
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
        lines = [f"{name} {tuple(p.shape)}" for name, p in model.named_parameters() if not _is_lazy(p)]
        text = "\n".join([type(model).__qualname__, *lines])
        known = hashlib.sha256(text.encode()).hexdigest()[:16]
        with suppress(TypeError):
            if not any(map(_is_lazy, model.parameters())):
                _known[model] = known
    return known


def _is_lazy(p: Any) -> bool:
    """Whether its shape comes with its first batch."""
    return hasattr(p, "materialize")
