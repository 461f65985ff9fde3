"""A training without safe points is told so unasked: once, with all that stands between the cell and them."""

from __future__ import annotations

import io
import linecache
import threading
import time
from collections.abc import Callable
from types import CodeType
from typing import Any

import anyio
import pytest

from jupyter_gpufit.worker.gaps import Gaps
from jupyter_gpufit.worker.main_thread import MainThread
from jupyter_gpufit.worker.points import Points

pytestmark = pytest.mark.anyio

CELL = "import functools\ndef slow(go_on):\n    return go_on()\nfunctools.reduce(lambda one, _: slow(go_on), [1, 2])\n"


class Program:
    pending = False
    at_safe_point: Callable[[], None]

    def __init__(self) -> None:
        self.long: list[str] = []

    def took_long(self, code: CodeType, seconds: float) -> bool:
        self.long.append(code.co_name)
        return code.co_name == "slow"


class Standing:
    """A thread that stands in a cell until it is let go; in its place, the main thread's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.there, self.leave = threading.Event(), threading.Event()
        name = "<ipython-input-8-abc>"
        linecache.cache[name] = (len(CELL), None, CELL.splitlines(keepends=True), name)
        namespace: dict[str, Any] = {"go_on": self._wait}
        self.thread = threading.Thread(target=lambda: exec(compile(CELL, name, "exec"), namespace))
        monkeypatch.setattr(threading, "main_thread", lambda: self.thread)

    def _wait(self) -> None:
        self.there.set()
        self.leave.wait()


async def test_it_is_said_once_with_the_whole_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    standing, program = Standing(monkeypatch), Program()
    standing.thread.start()
    watching = Gaps(Points(program, MainThread(), io.StringIO), program, said.append, long=0.02, every=0.01)
    try:
        standing.there.wait()
        async with anyio.create_task_group() as group:
            group.start_soon(watching.watch)
            with anyio.fail_after(300):
                while program.long.count("slow") < 3:  # noqa: ASYNC110  # what is waited for has no event
                    await anyio.sleep(0.01)
            group.cancel_scope.cancel()
    finally:
        standing.leave.set()
        standing.thread.join()

    [text] = said
    assert text.startswith("No safe point for ")
    assert "`slow` (line 3), called from a lambda (line 4), called from line 4 of the cell." in text
    assert text.endswith("From its next call on it can.")


@pytest.mark.slow(5)
async def test_nothing_is_said_where_there_are_safe_points(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    main, program = MainThread(), Program()
    monkeypatch.setattr(main, "is_here", lambda: True)
    points = Points(program, main, io.StringIO)
    until = time.monotonic() + 0.2

    async def come_to_some() -> None:
        while time.monotonic() < until:
            if program.pending:
                program.at_safe_point()
            await anyio.sleep(0.001)

    async with anyio.create_task_group() as group:
        group.start_soon(Gaps(points, program, said.append, long=0.1, every=0.02).watch)
        await come_to_some()
        group.cancel_scope.cancel()

    assert not said
