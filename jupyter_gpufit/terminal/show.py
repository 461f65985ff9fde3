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
        self._open = ""  # the display whose line is the last, and not yet ended: it may change
        self._width = 0  # of that line
        self.failure: Failure | None = None

    def __call__(self, event: Event, when: float | None = None) -> None:
        self._status.take(event, when or time.time())
        match event:
            case Text(name, text):
                self._print(self._out if name == "stdout" else self._err, text)
            case Display(data, _, {"display_id": str(name)}):
                self._show(name, data.get("text/plain", ""))
            case Display(data) | Result(data):
                self._print(self._out, f"{data.get('text/plain', '')}\n")
            case Failure(_, _, traceback):
                self.failure = event
                self._print(self._err, "\n".join(traceback) + "\n")
            case StateChange():
                self._print(self._err, f"{self._status.line()}\n")
            case _ if words := told(self._job, event):
                self._print(self._err, f"{words}\n")

    def _show(self, name: str, text: str) -> None:
        """A display that may change, a bar say: over its last words, where nothing was printed since."""
        again = name == self._open and "\n" not in text
        self._print(self._out, f"\r{text.ljust(self._width)}" if again else text, ends_line=not again)
        self._open, self._width = ("", 0) if "\n" in text else (name, len(text))
        if "\n" in text:
            self._print(self._out, "\n")

    def _print(self, stream: TextIO, text: str, *, ends_line: bool = True) -> None:
        if self._open and ends_line:
            self._out.write("\n")
            self._open = ""
        stream.write(text)
        stream.flush()
