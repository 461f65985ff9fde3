"""What an Output widget is told, and how often: it draws all of it each time."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpufit.notebook import outputs
from jupyter_gpufit.notebook.outputs import Outputs
from jupyter_gpufit.notebook.written import last_look, written


class Widget:
    """Counts what it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.complete = threading.Event()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "outputs":
            self.told.append(value)
            if "last" in str(value):
                self.complete.set()


def test_a_bar_stays_one_line() -> None:
    text = ""
    for step in range(1000):
        text = written(text, f"\rtraining: {step}/1000")
    assert last_look(text) == text == "training: 999/1000"
    assert written(text, "\nnext") == "training: 999/1000\nnext"


@pytest.mark.parametrize(
    ("parts", "seen"),
    [
        (("12345\r", "ab"), "ab345"),
        (("12345\r",), "12345"),
        (("a\r\n", "b"), "a\nb"),
        (("long line\r", "\x1b[31mred\x1b[0m"), "\x1b[31mred\x1b[0m"),
        (("\x1b[31mred\x1b[0m\r", "x"), "x"),
        (("first\nsec", "ond\rSEC"), "first\nSECond"),
    ],
)
def test_what_is_written_over_is_gone(parts: tuple[str, ...], seen: str) -> None:
    text = ""
    for part in parts:
        text = written(text, part)
    assert last_look(text) == seen


@given(st.lists(st.text("ab\r\n", max_size=6), max_size=8))
def test_in_parts_or_at_once_it_looks_the_same(parts: list[str]) -> None:
    text = ""
    for part in parts:
        text = written(text, part)
    assert last_look(text) == last_look("".join(parts))


def test_texts_of_one_stream_are_one_output_and_all_of_a_burst_is_told_a_little_later() -> None:
    widget = Widget()
    told = Outputs(widget)
    for step in range(2000):
        told.write("stderr", f"\r{step}/2000")
    told.display({"text/plain": "how it is"}, {}, "status")
    told.write("stdout", "last\n")
    told.display({"text/plain": "how it was"}, {}, "status")

    assert widget.complete.wait(30)
    stream, status, text = widget.told[-1]
    assert (stream["text"], status["data"], text["text"]) == ("1999/2000", {"text/plain": "how it was"}, "last\n")
    assert len(widget.told) < 200


def test_the_more_there_is_to_draw_the_seldomer_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "PER_SECOND", 1)
    widget = Widget()
    told = Outputs(widget)
    for _ in range(100):
        told.write("stdout", "a line\n")
    assert len(widget.told) == 1

    told.clear(keep="status")
    told.tell()

    assert widget.told[-1] == () and len(widget.told) == 2
    told.write("stdout", "anew\n")
    told.tell()
    assert widget.told[-1][0]["text"] == "anew\n"
