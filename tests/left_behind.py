"""What a test must not leave in its process, for the tests after it there: threads, rewritten libraries."""

from __future__ import annotations

import concurrent.futures.thread as pools
import faulthandler
import os
import sys
import threading
from collections.abc import Iterator
from functools import reduce

import pytest

from jupyter_gpufit.program.libraries.versions import IN_PLACE
from jupyter_gpufit.program.values import FRAME

_PATIENCE = 60.0  # for threads that are about to end


@pytest.fixture(autouse=True)
def _libraries_are_their_own_again() -> Iterator[None]:
    """Fail the test that leaves one rewritten, rather than those that use it later."""
    before = _rewritten()
    yield
    left = _rewritten() - before
    assert not left, f"a cell was begun and not left: {sorted(left)}"


def _rewritten() -> set[str]:
    """Functions of libraries that are as a resumable cell runs them."""
    return {
        f"{module}.{name}"
        for module, functions in IN_PLACE.items()
        if module in sys.modules
        for name in functions
        if FRAME in reduce(getattr, name.split("."), sys.modules[module]).__code__.co_varnames
    }


@pytest.fixture(scope="session", autouse=True)
def _no_thread_stays() -> Iterator[None]:
    """Fail when a test has left a thread that Python would wait for: of a process of xdist, only reports are heard."""
    yield
    if left := _threads_left():
        faulthandler.dump_traceback(all_threads=True)
        pytest.fail(f"Tests left threads that would keep Python from ending: {left}", pytrace=False)


def pytest_unconfigure() -> None:
    """End, rather than wait for ever."""
    if _threads_left():
        sys.stdout.flush()
        os._exit(1)


def _threads_left() -> list[str]:
    waits_for = [t for t in threading.enumerate() if not t.daemon and t not in pools._threads_queues]
    waits_for.remove(threading.current_thread())
    for thread in waits_for:
        thread.join(_PATIENCE)
    return [thread.name for thread in waits_for if thread.is_alive()]
