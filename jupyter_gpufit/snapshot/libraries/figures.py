"""Figures of matplotlib, whose transforms know by their id() which others depend on them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from ...graph.kind import Kind, Reduced
from ...graph.kinds.instances import make_instance

_PARENTS = "_parents"  # of a transform: weak references, by the id() of what they refer to


def find(cls: type) -> Kind | None:
    node = _node()
    return Kind(reduce=reduce_transform) if node is not None and issubclass(cls, node) else None


def _node() -> Any:
    return getattr(sys.modules.get("matplotlib.transforms"), "TransformNode", None)


def made_anew(objects: Iterable[Any]) -> set[int]:
    """The ids of dicts that are a transform's alone: they do not go as they are, for the transform gets new ones."""
    node = _node()
    transforms = [] if node is None else [one for one in objects if isinstance(one, node)]
    return {id(found) for one in transforms for found in (vars(one), vars(one).get(_PARENTS))}


def reduce_transform(transform: Any, pickler: Any) -> Reduced:
    own = {name: value for name, value in vars(transform).items() if name != _PARENTS}
    parents = [found for one in transform._parents.values() if (found := one()) is not None]
    return make_instance, (type(transform),), (own, parents), None, None, fill_transform


def fill_transform(transform: Any, state: tuple[dict[str, Any], list[Any]]) -> None:
    own, parents = state
    vars(transform).update(own, _parents={})
    for parent in parents:
        type(parent).set_children(parent, transform)
