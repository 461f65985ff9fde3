"""Reading another thread's variables: what is found, and that nothing of the reading stays."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from jupyter_gpufit.system.variables import read, values_of


class Batch:
    """Something large."""


class Running:
    """A thread that is inside a function, and goes on when told."""

    def __init__(self) -> None:
        self.there, self.go = threading.Event(), threading.Event()
        self.result: Any = None

    def stop_here(self) -> None:
        self.there.set()
        assert self.go.wait(300)
        self.go.clear()


@contextmanager
def inside(function: Any) -> Iterator[tuple[Running, FrameType]]:
    """A thread in `function`, and that function's frame."""
    running = Running()

    def run() -> None:
        running.result = function(running)

    thread = threading.Thread(target=run)
    thread.start()
    assert running.there.wait(300) and thread.ident is not None
    running.there.clear()
    frame: FrameType | None = sys._current_frames()[thread.ident]
    while frame is not None and frame.f_code is not function.__code__:
        frame = frame.f_back
    assert frame is not None
    try:
        yield running, frame
    finally:
        running.go.set()
        thread.join()


def train(running: Running) -> float:
    loss = 0.5
    epoch = 3
    running.stop_here()
    return loss + epoch


def test_reads_the_variables_of_a_function() -> None:
    with inside(train) as (running, frame):
        found = read(frame)
        assert (found["loss"], found["epoch"]) == (0.5, 3)
        assert read(frame, {"loss"}) == {"loss": 0.5}
    assert running.result == 3.5


# No assert in these functions: pytest makes each ask for its locals itself.


def lets_go(running: Running) -> Batch | None:
    batch: Batch | None = Batch()
    running.stop_here()
    batch = None
    running.stop_here()
    return batch


@pytest.mark.parametrize("how", [read, values_of])
def test_keeps_nothing_alive(how: Callable[[FrameType], dict[str, Any]]) -> None:
    with inside(lets_go) as (running, frame):
        batch = weakref.ref(how(frame)["batch"])
        running.go.set()
        assert running.there.wait(300)
        gc.collect()
        assert batch() is None


def asks_itself(running: Running) -> dict[str, Any]:
    found = locals()
    found["later"] = later = 1
    del found["later"]
    running.stop_here()
    return found if later else {}


def test_leaves_alone_what_the_code_asked_for_itself() -> None:
    with inside(asks_itself) as (running, frame):
        if sys.version_info < (3, 13):
            assert read(frame) == {}
        else:
            assert read(frame)["later"] == 1
    assert set(running.result) == {"running"}  # neither more nor less than it was


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="exec() has a copy of its own of the variables")
def test_what_code_has_put_beside_its_variables_stays() -> None:
    with inside(adds_a_variable) as (running, frame):
        assert "running" in values_of(frame)
        assert values_of(frame)["added"] == 1
    assert running.result == 1


def adds_a_variable(running: Running) -> Any:
    exec("added = 1")
    running.stop_here()
    return eval("added")


def is_asked(running: Running) -> dict[str, Any]:
    kept = 1
    found = looks_at_its_caller()
    running.stop_here()
    return found if kept else {}


def looks_at_its_caller() -> dict[str, Any]:
    return sys._getframe(1).f_locals


def test_does_not_empty_what_somebody_else_holds() -> None:
    with inside(is_asked) as (running, frame):
        assert read(frame, {"kept"}) == {"kept": 1}
    assert running.result["kept"] == 1


def test_of_a_cell_what_its_code_names() -> None:
    running = Running()
    namespace: dict[str, Any] = {"loss": 0.25, "stale": 1.0, "stop_here": running.stop_here}
    code = compile("stop_here()\nloss", "<cell>", "exec")
    thread = threading.Thread(target=exec, args=(code, namespace))
    thread.start()
    assert running.there.wait(300) and thread.ident is not None
    frame: FrameType | None = sys._current_frames()[thread.ident]
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    assert frame is not None
    found = read(frame)
    running.go.set()
    thread.join()
    assert found["loss"] == 0.25 and "stale" not in found
