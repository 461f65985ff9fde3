"""Two may wait for a safe point at once, and neither is called for the other's sake."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from jupyter_gpufit.worker.main_thread import MainThread
from jupyter_gpufit.worker.points import Points


class Program:
    """A program that comes to a safe point when told."""

    pending = False
    at_safe_point: Callable[[], None]

    def comes_to_one(self) -> None:
        if self.pending:
            self.at_safe_point()


@pytest.fixture
def program() -> Program:
    return Program()


@pytest.fixture
def done() -> list[str]:
    return []


@pytest.fixture
def points(program: Program, done: list[str]) -> Points:
    points = Points(program, MainThread(), io.StringIO)

    def save() -> None:
        points.want_save(False)
        done.append("saved")

    points.save = save
    return points


def test_a_copy_is_no_save(program: Program, points: Points, done: list[str]) -> None:
    points.want_copy(lambda: done.append("copied"))
    program.comes_to_one()
    program.comes_to_one()
    assert done == ["copied"] and not program.pending


def test_a_save_is_no_copy(program: Program, points: Points, done: list[str]) -> None:
    points.want_save(True)
    program.comes_to_one()
    program.comes_to_one()
    assert done == ["saved"] and not program.pending


def test_both_at_one_point(program: Program, points: Points, done: list[str]) -> None:
    points.want_save(True)
    points.want_copy(lambda: done.append("copied"))
    program.comes_to_one()
    assert done == ["copied", "saved"] and not program.pending


def test_a_save_that_is_not_wanted_any_more(program: Program, points: Points, done: list[str]) -> None:
    points.want_save(True)
    points.want_copy(lambda: done.append("copied"))
    points.want_save(False)
    program.comes_to_one()
    assert done == ["copied"]


def test_what_is_asked_for_at_the_point_waits_for_the_next(program: Program, points: Points, done: list[str]) -> None:
    points.want_copy(lambda: points.want_copy(lambda: done.append("again")))
    program.comes_to_one()
    assert done == [] and program.pending
    program.comes_to_one()
    assert done == ["again"]


def test_a_copy_that_fails_ends_no_training(program: Program, done: list[str]) -> None:
    log = io.StringIO()
    points = Points(program, MainThread(), lambda: log)
    points.want_copy(lambda: [][0])
    program.comes_to_one()
    assert "IndexError" in log.getvalue() and not program.pending
