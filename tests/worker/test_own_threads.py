"""Threads that a cell left: how long it waits for them."""

from __future__ import annotations

import queue
import threading
import time
from typing import Any

import psutil
import pytest

from jupyter_gpufit.worker import own_threads


@pytest.mark.slow(2)
def test_what_it_takes_to_look_does_not_pass_for_somebody_who_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with many processes: the cell of a thread that nobody will wake never ended there."""

    def slowly(process: psutil.Process, *args: Any, **kwargs: Any) -> list[psutil.Process]:
        until = time.thread_time() + 0.1
        while time.thread_time() < until:
            pass
        return []

    monkeypatch.setattr(psutil.Process, "children", slowly)
    monkeypatch.setattr(own_threads, "PATIENCE", 1.0)
    before = threading.enumerate()
    tasks: queue.Queue[None] = queue.Queue()
    threading.Thread(target=tasks.get, name="fetches").start()
    rescue = threading.Timer(20.0, tasks.put, [None])
    rescue.daemon = True
    rescue.start()
    notes: list[str] = []

    own_threads.wait_for_threads(before, notes.append)

    rescue.cancel()
    tasks.put(None)
    assert any("ends without its threads 'fetches'" in note for note in notes), notes
