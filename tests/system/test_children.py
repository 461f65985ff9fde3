"""Processes that serve a pipe say what they hold where they wait, and others of the same function take it over."""

from __future__ import annotations

import multiprocessing
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from jupyter_gpufit.system import children
from jupyter_gpufit.system.children import CannotTell, OnlyNow, ServedChild, prepare
from tests.kernels import TIMEOUT

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


class Counter:
    def __init__(self) -> None:
        self.at = 0
        self.much = b""


def serve(link: Connection, start: list[int]) -> None:
    counter, last = Counter(), None

    def add(number: int) -> int:
        counter.at += number
        return counter.at

    while True:
        try:
            asked, last = link.recv(), last
        except EOFError:
            break
        if asked == "fill":
            link.send("unread")
            continue
        if isinstance(asked, Path):
            counter.much = asked.read_bytes() * (4 << 20)  # it is at work until somebody writes there
            continue
        last = (last or 0) + 1
        link.send((add(asked), last, start[0], random.random()))


def serve_some(link: Connection, start: list[int]) -> None:
    for _ in range(9):
        link.send(link.recv())


@contextmanager
def begun(target: Callable[..., None], method: str = "fork") -> Iterator[tuple[Any, ServedChild]]:
    context: Any = multiprocessing.get_context(method)
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs, [7]), daemon=True)
    child = prepare(process)
    assert child is not None
    process.start()
    try:
        yield ours, child
    finally:
        process.kill()
        process.join()


def ask(link: Any, number: object) -> Any:
    link.send(number)
    return link.recv()


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_another_goes_on_as_the_one_that_told(method: str) -> None:
    with begun(serve, method) as (one, child), begun(serve, method) as (other, second):
        first = [ask(one, number) for number in (1, 2)]
        held = child.tell()
        then = [ask(one, number) for number in (3, 4)]

        second.take(held)

        assert [ask(other, number) for number in (3, 4)] == then
        assert first[1][:3] == (3, 2, 7) and then[0][:3] == (6, 3, 7)


def test_what_is_on_its_way_would_be_lost() -> None:
    with begun(serve) as (one, child):
        one.send("fill")
        assert one.poll(TIMEOUT)
        with pytest.raises(OnlyNow, match="on its way"):
            child.tell()
        assert one.recv() == "unread"
        assert child.tell()


def test_a_loops_iterator_is_in_no_variable() -> None:
    with begun(serve_some) as (one, child):
        assert ask(one, 1) == 1
        with pytest.raises(CannotTell, match="within a `for`"):
            child.tell()


def test_one_that_has_ended_tells_nothing() -> None:
    process = multiprocessing.get_context("fork").Process(target=serve, args=(multiprocessing.Pipe()[1], [7]))
    child = prepare(process)
    assert child is not None
    process.start()
    process.kill()
    process.join()

    with pytest.raises(CannotTell, match="ended"):
        child.tell()


def test_a_late_answer_is_in_nobodys_way(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    os.mkfifo(work := tmp_path / "work")
    with begun(serve) as (one, child), begun(serve) as (other, second):
        with monkeypatch.context() as hurried:
            hurried.setattr(children, "_PATIENCE", 0.1)
            one.send(work)
            with open(work, "wb") as ready:
                for _ in range(2):
                    with pytest.raises(OnlyNow, match="at work"):
                        child.tell()
                hurried.setattr(children, "_SILENCE", 0.0)
                with pytest.raises(CannotTell, match="does not answer") as silent:
                    child.tell()
                assert not isinstance(silent.value, OnlyNow)
                ready.write(b"x")
        assert child._link.poll(TIMEOUT)

        one.send(1)

        assert one.poll(TIMEOUT), "it writes what it holds, and nobody reads it"
        first = one.recv()
        second.take(child.tell())
        assert ask(one, 2)[:3] == ask(other, 2)[:3] == (3, 2, 7) and first[0] == 1


def test_one_that_has_only_just_begun_takes_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    os.mkfifo(work := tmp_path / "work")
    with begun(serve) as (one, child), begun(serve) as (other, second):
        ask(one, 1)
        held = child.tell()
        monkeypatch.setattr(children, "_PATIENCE", 0.1)
        other.send(work)
        with open(work, "wb") as ready:
            late = threading.Timer(0.3, ready.close)
            late.start()

            second.take(held)
            late.join()

        assert ask(other, 2)[0] == 3


def test_what_gets_no_pipe_is_left_as_it_is() -> None:
    process = multiprocessing.get_context("fork").Process(target=print)

    assert prepare(process) is None
