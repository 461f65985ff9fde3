"""Widgets in words."""

from __future__ import annotations

from typing import Any

from ipywidgets import (
    Button,
    Combobox,
    FloatSlider,
    HBox,
    Image,
    IntRangeSlider,
    Label,
    Output,
    SelectMultiple,
    ToggleButton,
    VBox,
    Widget,
)
from ipywidgets.widgets import widget as widgets

from jupyter_gpufit.notebook.widget_words import DEEPEST, words_of


def said(widget: Widget) -> str:
    return words_of(widget.model_id, state_of)


def state_of(id: str) -> dict[str, Any] | None:
    found: Widget | None = widgets._instances.get(id)
    return None if found is None else found.get_state()


def test_each_says_its_label_and_its_value() -> None:
    assert said(FloatSlider(value=0.25, description="rate")) == "rate 0.25"
    assert said(IntRangeSlider(value=(1, 5), description="layers")) == "layers 1, 5"
    assert said(SelectMultiple(options=["a", "b", "c"], value=("a", "c"), description="sets")) == "sets a, c"
    assert said(ToggleButton(description="mixed")) == "☐ mixed"
    assert said(Combobox(value="cosine", options=["cosine"], description="schedule")) == "schedule cosine"
    assert said(Image(value=b"\x00")) == said(Output()) == said(Button()) == ""


def test_a_box_says_what_is_in_it_and_nothing_of_what_is_not_known() -> None:
    gone = Label("gone")
    box = VBox([HBox([Label("loss"), Label("0.5")]), Image(value=b"\x00"), gone, Label("end")])
    widgets._instances.pop(gone.model_id)
    assert said(box) == "loss 0.5\nend"
    assert said(VBox([])) == ""


def test_boxes_that_hold_each_other_come_to_an_end() -> None:
    states: dict[str, dict[str, Any]] = {"a": {"children": ["IPY_MODEL_a", "IPY_MODEL_b"]}, "b": {"value": "in"}}
    assert words_of("a", lambda id: states[id]).split() == ["in"] * DEEPEST
