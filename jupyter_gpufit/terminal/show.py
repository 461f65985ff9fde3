"""How a job's events look in a terminal."""

from __future__ import annotations

import time
from typing import TextIO

from ..jobs.events import (
    Display,
    Event,
    Failure,
    Result,
    StateChange,
    Text,
)
from ..jobs.job import Job
from ..jobs.words import StatusLine, told


class TerminalShow:
    """Prints events: the cell's stdout to stdout, everything else to stderr."""

    def __init__(self, job: Job, out: TextIO, err: TextIO) -> None:
        self._out, self._err = out, err
        self._job = job
        self._status = StatusLine(job)
        self.failure: Failure | None = None

    def __call__(self, event: Event, when: float | None = None) -> None:
        self._status.take(event, when or time.time())
        match event:
            case Text(name, text):
                self._print(self._out if name == "stdout" else self._err, text)
            case Display(data) | Result(data):
                self._print(self._out, f"{data.get('text/plain', '')}\n")
            case Failure(_, _, traceback):
                self.failure = event
                self._print(self._err, "\n".join(traceback) + "\n")
            case StateChange():
                self._print(self._err, f"{self._status.line()}\n")
            case _ if words := told(self._job, event):
                self._print(self._err, f"{words}\n")

    def _print(self, stream: TextIO, text: str) -> None:
        stream.write(text)
        stream.flush()
