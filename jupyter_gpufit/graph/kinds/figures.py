"""Figures of matplotlib: what is drawn travels, and where it is shown is each process's own.

A canvas that a browser speaks with (`%matplotlib notebook`, `%matplotlib widget`) stays in the notebook. In the worker
the figure has a plain one, and is shown under the cell. On the way back the notebook's own canvas is around it as
before, and draws it anew.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from ..kind import Kind, Pickler, Reduced
from .instances import INSTANCE, fill_storable, make, make_instance, reduce_storable, storable_mark, storable_state

_SHOWN_BY_PYPLOT = "_restore_to_pylab"  # in what a figure stores of itself
_IDS = ("_mouse_key_ids", "_button_pick_id", "_scroll_pick_id")  # of what it calls itself when somebody clicks


_PARENTS = "_parents"  # of a transform: weak references, by the id() of what they refer to
_NOT_LOADED = ()


def find(cls: type) -> Kind | None:
    if issubclass(cls, _class("transforms", "TransformNode")):
        return TRANSFORM
    if issubclass(cls, _class("figure", "Figure")):
        return FIGURE
    return CANVAS if issubclass(cls, _class("backend_bases", "FigureCanvasBase")) else None


def _class(module: str, name: str) -> Any:
    return getattr(sys.modules.get(f"matplotlib.{module}"), name, _NOT_LOADED)


def reduce_transform(transform: Any, pickler: Pickler) -> Reduced:
    return make_instance, (type(transform),), transform_state(transform), None, None, fill_transform


def transform_state(transform: Any) -> tuple[dict[str, Any], list[Any]]:
    """Its attributes, and which others depend on it: it knows those by their id(), which is another one elsewhere."""
    own = {name: value for name, value in vars(transform).items() if name != _PARENTS}
    return own, [found for one in transform._parents.values() if (found := one()) is not None]


def fill_transform(transform: Any, state: tuple[dict[str, Any], list[Any]]) -> None:
    own, parents = state
    vars(transform).update(own, _parents={})
    for parent in parents:
        type(parent).set_children(parent, transform)


def is_spoken_with(canvas: Any) -> bool:
    """Whether a window or a browser shows it: then it has a manager that is more than the plain one."""
    manager = getattr(canvas, "manager", None)
    return manager is not None and type(manager) is not _class("backend_bases", "FigureManagerBase")


def reduce_figure(figure: Any, pickler: Pickler) -> Reduced:
    if not is_spoken_with(figure.canvas):
        return *reduce_storable(figure, pickler)[:-1], fill_figure
    return *make(figure, pickler), figure_state(figure), None, None, fill_figure


def figure_state(figure: Any) -> tuple[Any, ...]:
    if not is_spoken_with(figure.canvas):
        return storable_state(figure)
    stored = figure.__getstate__()
    return type(figure), None, None, {**stored, **{name: _of_no_page(stored[name]) for name in _callbacks(figure)}}


def _callbacks(figure: Any) -> list[str]:
    return [name for name, value in vars(figure).items() if isinstance(value, _class("cbook", "CallbackRegistry"))]


def _of_no_page(callbacks: Any) -> Any:
    """Without what a canvas, its toolbar and its manager hear: matplotlib stores what belongs to the figure."""
    found = object.__new__(type(callbacks))
    found.__setstate__(callbacks.__getstate__())
    return found


def fill_figure(figure: Any, state: tuple[Any, ...]) -> None:
    canvas = vars(figure).get("canvas")
    if not is_spoken_with(canvas):
        fill_storable(figure, state)
        return
    own = {name: vars(figure)[name] for name in (*_callbacks(figure), *_IDS)}
    stored = (
        state[3] if len(state) == 4 else {**(state[1] or {}), "__mpl_version__": sys.modules["matplotlib"].__version__}
    )
    stored = {name: value for name, value in stored.items() if name != _SHOWN_BY_PYPLOT}
    fill_storable(figure, (type(figure), None, None, {**stored, **own}))
    figure.set_canvas(canvas)


def draw_again(objects: Iterable[Any]) -> tuple[str, ...]:
    """Show what has become of figures that a page shows, in whichever of their parts that is; says what fails."""
    figures, undrawn = _class("figure", "Figure"), []
    if figures:
        for canvas in [one.canvas for one in objects if isinstance(one, figures) and is_spoken_with(one.canvas)]:
            try:
                canvas.draw_idle()
            except Exception as error:  # a library's or the user's; what was trained has come all the same
                undrawn.append(f"A figure came back and could not be drawn anew: {error!r}")
    return tuple(undrawn)


def reduce_canvas(canvas: Any, pickler: Pickler) -> Reduced:
    if not is_spoken_with(canvas):
        return INSTANCE.reduce(canvas, pickler)
    return getattr, (canvas.figure, "canvas")


TRANSFORM = Kind(reduce=reduce_transform, state=transform_state, fill=fill_transform)
FIGURE = Kind(reduce=reduce_figure, state=figure_state, fill=fill_figure, mark=storable_mark)
CANVAS = Kind(reduce=reduce_canvas)
