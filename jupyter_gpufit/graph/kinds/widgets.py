"""Widgets that an earlier cell made: the cell has them, too, and what it makes of them is seen where they are shown.

A widget travels as its attributes, so that its traits, its observers and the widgets inside of it go along. Its line to
the browser is each process's own: a worker's has the same name, and what is said there the notebook's own widget says
(notebook/mirrors.py). One that the cell made comes back as the notebook's own, and takes its mirror's place there.
"""

from __future__ import annotations

import sys
from typing import Any

from ..kind import Kind, Pickler, Reduced
from ..refusals import INSIDE, TRAITS, is_widget, stays
from .generic import reduce_generic
from .instances import make_instance

TARGET = "jupyter.widget"
_CAUGHT = "outputs"  # of an Output: what was printed within it is caught in the notebook, and is not known elsewhere
_BY_ITS_MIRROR = "_gpufit_caught"  # on a line: what an Output's mirror has of that
_STAYS = f"a widget, which speaks with the notebook through the kernel. {INSIDE}."


def find(cls: type) -> Kind | None:
    if is_widget(cls):
        return WIDGET
    base = getattr(sys.modules.get("comm.base_comm"), "BaseComm", None)
    return LINE if base is not None and issubclass(cls, base) else None


def reduce_widget(widget: Any, pickler: Pickler) -> Reduced:
    if stays(widget) and not pickler.back:
        return pickler.refuse(widget, _STAYS)
    return make_instance, (type(widget),), widget_state(widget), None, None, fill_widget


def widget_state(widget: Any) -> tuple[Any, ...]:
    """The traits as a picture of their own: an Output's are not all the worker's to tell."""
    own = dict(vars(widget))
    traits = own.pop(TRAITS, {})
    return type(widget), own, dict(traits)


def fill_widget(widget: Any, state: tuple[Any, ...]) -> None:
    """Without telling anybody: observers were called, and browsers were told, where the change was made."""
    _, own, traits = state
    here = vars(widget).get(TRAITS, {})
    if _CAUGHT in here:
        traits = {**traits, _CAUGHT: here[_CAUGHT]}
    here.clear()
    here.update(traits)
    vars(widget).clear()
    vars(widget).update({**own, TRAITS: here})
    if (line := traits.get("comm")) is not None:
        if (caught := vars(line).pop(_BY_ITS_MIRROR, None)) is not None:
            here[_CAUGHT] = caught
        # ipywidgets keeps each widget alive until it is closed: one that is collected closes itself in the browser.
        sys.modules["ipywidgets.widgets.widget"]._instances.setdefault(line.comm_id, widget)


def reduce_line(line: Any, pickler: Pickler) -> Reduced:
    if pickler.is_snapshot:
        return reduce_generic(line, pickler)
    if (getattr(line, "stays", False) and not pickler.back) or line.target_name != TARGET or line._closed:
        return pickler.refuse(line, f"a line to the notebook's page. {INSIDE}.")
    hears = unwrapped(line._msg_callback)  # another job may be at its other end
    return make_line, (line.comm_id, line.target_name), hears, None, None, fill_line


def unwrapped(hears: Any) -> Any:
    """What the widget itself hears by, where jobs hear in its place (notebook/own_widgets.py)."""
    while (before := getattr(hears, "heard_before", None)) is not None:
        hears = before
    return hears


def make_line(id: str, target: str) -> Any:
    """This process's line of that name; what stands at its other end knows it already."""
    import comm

    there = getattr(sys.modules.get("ipywidgets.widgets.widget"), "_instances", {}).get(id)
    if (hand_over := getattr(there, "hand_over", None)) is not None:  # a mirror, of what the cell made
        line, caught = hand_over()
        vars(line)[_BY_ITS_MIRROR] = caught
        return line
    made: Any = comm.create_comm(comm_id=id, target_name=target, primary=False)
    comm.get_comm_manager().register_comm(made)
    made.stays = False
    return made


def fill_line(line: Any, hears: Any) -> None:
    line.on_msg(hears)


WIDGET = Kind(reduce=reduce_widget, state=widget_state, fill=fill_widget)
LINE = Kind(reduce=reduce_line)
