"""Tensors of earlier cells, and the graphs of autograd that stay behind.

Where a gradient could come to what travels, the graph of a variable that the cell uses is wanted there, and the cell is
refused; one that it sets, as a loop does its `loss`, goes as a value, and a backward through it is an error. Where all
that it was computed of stays, too, nobody there could see to what gradients it leads: they end at the tensor.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from typing import Any

from ..stream import GraphPickler

_MOST = 20  # beside variables: what a module keeps of a last forward may be many


def stays(value: Any, pickler: GraphPickler) -> bool:
    return any(value is one for one in pickler.graphs_stay)


def refuse(pickler: GraphPickler, names: Iterable[str], certain: Container[str] | None) -> None:
    """Of the variables that are used as they are, those whose gradients would be missed; the others are said."""
    variables = _variables(pickler, (name for name in names if certain is None or name in certain))
    if not variables:
        return
    known = pickler.known()
    for name, t in variables.items():
        if _ends(t, known):
            pickler.remarks.append(
                f"{name} was computed in an earlier cell: gradients end there, and what it was computed of, which this"
                " cell does not use, gets none."
            )
        else:
            pickler.name = name
            pickler.refuse(t, pickler.not_by_name[id(t)])


def that_end(pickler: GraphPickler, names: Iterable[str], known: Mapping[int, tuple[int, Any]]) -> list[int]:
    """The numbers of those at which gradients end."""
    tensors = [*_variables(pickler, names).values(), *pickler.graphs_stay[:_MOST]]
    return sorted({known[id(t)][0] for t in tensors if id(t) in known and _ends(t, known)})


def _variables(pickler: GraphPickler, names: Iterable[str]) -> dict[str, Any]:
    ids = {*map(id, pickler.graphs_stay)}
    return {name: value for name in names if id(value := pickler.namespace.get(name)) in ids}


def let_gradients_end(tensors: Iterable[Any]) -> None:
    for t in tensors:
        from ..kinds.flowing import let_end  # torch is there, where one came

        let_end(t)


def _ends(t: Any, known: Collection[int]) -> bool:
    from ..kinds.flowing import leaves_of

    leaves = leaves_of(t)
    return leaves is not None and not any(id(leaf) in known for leaf in leaves)
