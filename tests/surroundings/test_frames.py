"""Where an error was raised, in another process, as a debugger sees it."""

from __future__ import annotations

import linecache
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

import numpy as np
import pytest
import torch

from jupyter_gpufit.surroundings import frames

CELL = "<a cell>"


def raised(text: str, **names: Any) -> tuple[Exception, dict[str, Any]]:
    """What a cell raised, and its namespace; below a frame of the shell's, as ever."""
    linecache.cache[CELL] = len(text), None, text.splitlines(keepends=True), CELL
    namespace = {"__name__": "no_such_module", **names}
    with pytest.raises(Exception) as failed:
        exec(compile(text, CELL, "exec"), namespace)
    assert isinstance(failed.value, Exception) and failed.value.__traceback__ is not None
    return failed.value, namespace


def again(error: Exception, known: dict[str, Any]) -> list[FrameType]:
    """The frames that an error has in another process, the outermost first."""
    came = frames.given(error, {id(one) for one in known.values()})
    del linecache.cache[CELL]
    made = ValueError("the same")
    frames.taken_up(made, came)
    return [link.tb_frame for link in links(made.__traceback__)]


def links(trace: TracebackType | None) -> list[TracebackType]:
    return [] if trace is None else [trace, *links(trace.tb_next)]


def test_each_frame_stands_at_its_line_with_what_its_names_held() -> None:
    x = torch.ones(2, 3)
    error, namespace = raised(
        "def divide(rows, by):\n"
        "    half = rows.sum() / 2\n"
        "    table = {'sizes': [np.arange(3), (1, 'a')]}\n"
        "    return by // 0\n"
        "\n"
        "divide(x, 7)\n",
        x=x,
        np=np,
    )

    cell, function = again(error, namespace)

    assert (cell.f_code.co_name, cell.f_lineno) == ("<module>", 6)
    assert (function.f_code.co_name, function.f_lineno, function.f_code.co_firstlineno) == ("divide", 4, 1)
    held = function.f_locals
    assert held["rows"] is x and held["half"] == 3 and held["by"] == 7
    assert held["table"]["sizes"][0].tolist() == [0, 1, 2] and held["table"]["sizes"][1] == (1, "a")
    assert linecache.getline(function.f_code.co_filename, 4) == "    return by // 0\n"


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda: threading.Lock(), "<unlocked _thread.lock"),
        (lambda: [threading.Lock()], "[<unlocked "),
        (lambda: list(range(5000)), "[0, 1, 2, 3, 4, 5, ...]"),
        (lambda: torch.empty(600 << 20, dtype=torch.uint8)[:2], "tensor("),
        (lambda: Unshown(), "<a Unshown whose repr() failed: ValueError>"),
    ],
)
def test_what_does_not_travel_is_shown_by_its_text(made: Callable[[], Any], text: str) -> None:
    error, _ = raised("def use():\n    thing = made()\n    1 / 0\nuse()\n", made=made)

    *_, function = again(error, {})

    assert isinstance(function.f_locals["thing"], frames.Shown)
    assert repr(function.f_locals["thing"]).startswith(text)


class Unshown:
    def __repr__(self) -> str:
        raise ValueError


def test_what_the_notebook_has_is_the_notebooks_own_whatever_it_is() -> None:
    lock = threading.Lock()
    error, namespace = raised("def use(thing):\n    1 / 0\nuse(lock)\n", lock=lock)

    *_, function = again(error, namespace)

    assert function.f_locals == {"thing": lock}


def test_of_an_endless_recursion_both_ends_are_there() -> None:
    error, _ = raised("def again(n):\n    return again(n + 1)\nagain(0)\n")

    there = again(error, {})

    assert len(there) == frames.MOST_FRAMES
    assert there[0].f_code.co_name == "<module>" and there[1].f_locals == {"n": 0}
    assert there[-1].f_locals["n"] > frames.MOST_FRAMES


def test_the_cells_own_frame_has_the_notebooks_variables() -> None:
    error, _ = raised("x = 5\nx / 0\n")
    came = frames.given(error, ())
    came[0][0] = (*came[0][0][:4], __name__, None)

    frames.taken_up(error, came)

    assert error.__traceback__ is not None
    assert error.__traceback__.tb_frame.f_locals is globals() and error.__traceback__.tb_lineno == 2


def test_an_error_without_frames_has_no_traceback() -> None:
    error = SyntaxError("never ran")
    frames.taken_up(error, frames.given(error, ()))
    assert error.__traceback__ is None
