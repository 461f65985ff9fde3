"""A cell's last numbers."""

from __future__ import annotations

import gc
import linecache
import sys
from collections.abc import Iterator
from types import CodeType
from typing import Any

import pytest
import torch

from jupyter_gpufit.worker import finals
from jupyter_gpufit.worker.finals import Finals, told
from jupyter_gpufit.worker.main_thread import MainThread
from jupyter_gpufit.worker.own_lock import OwnLock
from jupyter_gpufit.worker.points import Points


def last(text: str, **given: Any) -> dict[str, float]:
    """Of a cell that calls over() where its loops end."""
    filename = "<cell of test_finals>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    seen: dict[str, CodeType] = {}
    of_cell = Finals(MainThread(), OwnLock(), seen)

    def look(name: str) -> None:
        seen[name] = sys._getframe(1).f_code

    namespace = {"over": lambda: of_cell.loop_over(sys._getframe(1)), "look": look, "torch": torch, **given}
    exec(compile(text, filename, "exec"), namespace)
    return of_cell.at_the_end(text, namespace)


TRAIN = "def train():\n    for step in range(3):\n        loss = torch.tensor(1.0 / (step + 1))\n    over()\n"


def test_of_a_function_what_its_loop_left() -> None:
    assert last(f"{TRAIN}train()\n")["loss"] == pytest.approx(1 / 3)


def test_of_the_cell_what_people_find_there_afterwards() -> None:
    assert last("for loss in (3.0, 2.0):\n    pass\nover()\nloss = loss / 4\n") == {"loss": 0.5}
    assert last(f"{TRAIN}train()\nloss = 0.25\n")["loss"] == 0.25
    assert last("losses.append(1.5)\nover()\n", losses=[2.0])["losses"] == 1.5


def test_a_number_of_an_earlier_cell_that_is_only_read_hides_no_loop() -> None:
    assert last(f"print(loss)\n{TRAIN}train()\n", loss=9.0)["loss"] == pytest.approx(1 / 3)


CHECK = "def check():\n    for _ in range(2):\n        loss = 9.0\n    over()\n"


def test_a_loop_that_is_long_over_is_not_what_a_librarys_ended_with() -> None:
    text = f"{CHECK}check()\ndef logs():\n    look('loss')\nlogs()\n"
    assert last(text) == {}
    assert last(f"print(loss)\n{text}", loss=8.0) == {}


def test_an_evaluation_afterwards_is_not_the_training() -> None:
    train = TRAIN.replace("    over()", "        look('loss')\n    over()")
    assert last(f"{train}{CHECK}train()\ncheck()\n")["loss"] == pytest.approx(1 / 3)
    assert last(f"{TRAIN}{CHECK}train()\ncheck()\n") == {}  # nobody saw either: who would know


def test_garbage_that_ends_while_the_program_is_saved_waits_for_nobody() -> None:
    class Program:
        pending = False
        at_safe_point: Any

    program = Program()
    points = Points(program, MainThread(), lambda: sys.stderr)
    of_cell = Finals(MainThread(), points.reading, points.seen)
    ended: list[str] = []

    def left() -> Iterator[int]:
        try:
            yield 1
        finally:
            of_cell.loop_over(sys._getframe())
            program.at_safe_point()  # of a loop there
            ended.append("garbage")

    def save() -> None:
        generator = left()
        next(generator)
        del generator
        gc.collect()
        ended.append("saved")

    points.save = save
    points.want_save(True)
    program.at_safe_point()

    assert ended == ["garbage", "saved"]


def test_what_has_no_numbers_does_no_harm() -> None:
    class Hostile:
        def __getattribute__(self, name: str) -> Any:
            raise ZeroDivisionError(name)

    assert last("def f(loss):\n    over()\nf(hostile)\nacc = 0.5\n", hostile=Hostile()) == {"acc": 0.5}


def test_a_function_that_is_called_without_end_is_not_looked_at_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []
    monkeypatch.setattr(finals, "FREE", 0.0)
    monkeypatch.setattr(finals, "SHARE", 0.0)
    monkeypatch.setattr(finals, "numbers_in", looked.append)
    last("def f():\n    over()\nfor _ in range(100):\n    f()\n")
    assert len(looked) == 1


def test_another_thread_of_the_cell_is_not_looked_at() -> None:
    text = f"import threading\n{TRAIN}one = threading.Thread(target=train)\none.start()\none.join()\n"
    assert last(text) == {}


def test_what_was_told_before_and_what_is_a_metric() -> None:
    assert told({"lr": 0.5, "a": 1.0, "b": 2.0, "acc": 3.0}, ["b", "loss"]) == {"b": 2.0, "lr": 0.5, "acc": 3.0}
