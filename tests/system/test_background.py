"""Work beside the event loop: in a thread that is kept for a while, and in as many as there is work at once."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from jupyter_gpufit.system import background
from jupyter_gpufit.system.background import aside

pytestmark = pytest.mark.anyio


async def test_one_after_the_other_in_one_thread_which_ends_when_there_is_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background, "_idle", [])  # without the threads of other tests
    monkeypatch.setattr(background, "KEPT", 60.0)
    first = await aside(threading.current_thread)
    _until_idle()
    assert await aside(threading.current_thread) is first and first.daemon
    _until_idle()
    monkeypatch.setattr(background, "KEPT", 0.0)
    assert await aside(threading.current_thread) is first
    first.join(60.0)
    assert not first.is_alive()
    assert await aside(threading.current_thread) is not first


def _until_idle() -> None:
    """It has answered, and is about to wait."""
    while not background._idle:
        pass


async def test_what_fails_fails_for_who_asked_and_the_next_is_served() -> None:
    with pytest.raises(ZeroDivisionError):
        await aside(lambda: 1 / 0)
    assert await aside(lambda: 1) == 1


async def test_who_is_at_work_is_given_no_more() -> None:
    ended = threading.Event()
    long = asyncio.create_task(aside(lambda: ended.wait(60.0)))
    assert await aside(lambda: 1) == 1
    ended.set()
    assert await long


async def test_a_fork_waits_for_no_thread_of_the_process_that_it_came_from(monkeypatch: pytest.MonkeyPatch) -> None:
    await aside(lambda: 1)
    while not background._idle:
        pass
    monkeypatch.setattr(os, "getpid", lambda: -1)  # as in a fork
    assert await aside(lambda: 2) == 2
