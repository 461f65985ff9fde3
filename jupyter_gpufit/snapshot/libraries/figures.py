"""Figures of matplotlib, whose transforms know by their id() which others depend on them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

_PARENTS = "_parents"  # of a transform: weak references, by the id() of what they refer to


def made_anew(objects: Iterable[Any]) -> set[int]:
    """The ids of dicts that are a transform's alone: they do not go as they are, for the transform gets new ones."""
    node = getattr(sys.modules.get("matplotlib.transforms"), "TransformNode", None)
    transforms = [] if node is None else [one for one in objects if isinstance(one, node)]
    return {id(found) for one in transforms for found in (vars(one), vars(one).get(_PARENTS))}
