"""What is said of a worker that left no last word."""

from __future__ import annotations

import os

from jupyter_gpufit.process import ProcessId
from jupyter_gpufit.worker.follow import _how_it_died
from jupyter_gpufit.worker.record import Record


def test_a_worker_that_never_began_did_not_end_in_the_middle_of_the_cell() -> None:
    never = _how_it_died(1, Record(state="lost", since=0.0))
    assert "worker.log" in never and "cell" not in never
    began = Record(state="lost", since=0.0, worker=ProcessId.of(os.getpid()))
    assert "exit code 1 in the middle of the cell" in _how_it_died(1, began)
