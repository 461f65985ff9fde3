"""`gpufit status --watch`: the status again and again, the curves of one of the user's jobs, and keys for its verbs."""

from __future__ import annotations

import os
import select
import shutil
import sys
import termios
import threading
import time
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio

from ..actions import table
from ..actions.buttons import find_mine, on_job
from ..actions.possible import why_not
from ..actions.status import JobView, Status, StatusReader
from ..errors import GpufitError, first_of
from ..jobs.curves import Curves, Point, runs, thinned
from ..jobs.journal import JournalReader
from ..jobs.state import ENDED
from ..jobs.verbs import Verb
from ..settings import Settings
from ..units import format_bytes, format_duration, format_figure
from .braille import chart
from .colours import BOLD, DIM, RESET, coloured, wanted

EVERY = 2.0  # seconds; NVML's own figures are averages of up to one
VERB_KEYS: dict[str, Verb] = {"c": "checkpoint", "r": "release", "m": "move", "s": "stop"}
DOWN, UP = ("j", "\x1b[B", "\x1bOB"), ("k", "\x1b[A", "\x1bOA")
HEIGHT = 6  # lines of a curve
LEAST = 60  # characters from which two curves stand beside each other


@dataclass
class WatchScreen:
    """What is on the screen, and what the keys chose."""

    settings: Settings
    reader: StatusReader = field(default_factory=StatusReader)
    chosen: str = ""  # the job's id
    asking: Verb | None = None  # whether to do it, which a `y` confirms
    said: str = ""  # of what was done
    ended: bool = False
    status: Status | None = None
    _curves: dict[str, tuple[JournalReader, Curves]] = field(default_factory=dict)  # of the chosen job

    def look(self) -> None:
        """Read everything anew."""
        self.status = self.reader.read(self.settings)
        jobs = self.jobs
        if jobs and self.chosen not in {job.id for job in jobs}:
            self.chosen, self.asking = jobs[-1].id, None

    @property
    def jobs(self) -> list[JobView]:
        """Of this user's, those that have not ended."""
        return [job for job in self.status.jobs if job.state not in (*ENDED, "lost")] if self.status else []

    @property
    def job(self) -> JobView | None:
        return next((job for job in self.jobs if job.id == self.chosen), None)

    # Keys -------------------------------------------------------------------------------------------------------------

    def press(self, key: str) -> None:
        """What a key does."""
        job, asked, self.asking = self.job, self.asking, None
        if asked is not None and job is not None:
            if key == "y":
                self._do(job, asked)
        elif key in ("q", "\x1b", "\x03"):
            self.ended = True
        elif key in DOWN or key in UP:
            self._choose(1 if key in DOWN else -1)
        elif job is not None and key in VERB_KEYS:
            why = why_not(job, VERB_KEYS[key])
            self.said, self.asking = why, None if why else VERB_KEYS[key]

    def _choose(self, by: int) -> None:
        ids = [job.id for job in self.jobs]
        if self.chosen in ids:
            self.chosen, self.said = ids[(ids.index(self.chosen) + by) % len(ids)], ""

    def _do(self, job: JobView, verb: Verb) -> None:
        """Aside, to its end: who leaves the screen leaves no half of a stop behind."""

        async def all_words() -> None:
            async for word in on_job(self.settings, job.id, verb, ""):
                self.said = word

        def run() -> None:
            try:
                anyio.run(all_words)
            except* GpufitError as group:
                self.said = str(first_of(group))

        self.said = f"{verb} {job.name}"
        threading.Thread(target=run, name=f"gpufit-{verb}").start()

    # Screen -----------------------------------------------------------------------------------------------------------

    def lines(self, width: int, height: int, *, colours: bool) -> list[str]:
        """What stands on a screen of that size."""
        assert self.status is not None
        text = table.status(self.status, width)
        shown = (coloured(text) if colours else text).split("\n")
        charts = self._charts(width)
        drawn = coloured("\n".join(charts)).split("\n") if colours and charts else charts
        below = [*drawn, "", self._footer(width, colours=colours)]
        room = max(0, height - len(below))
        if len(shown) > room:
            shown = [*shown[: max(0, room - 1)], "…"][:room]
        return [*shown, *[""] * (room - len(shown)), *below][-height:]

    def _charts(self, width: int) -> list[str]:
        job = self.job
        if job is None:
            return []
        curves = self._read(job)
        progress = job.progress
        total = f" of {progress.total:,}" if progress.total else ""
        left = f", {format_duration(progress.left)} left" if progress.left else ""
        head = f"{job.name} ({job.id}): {job.state}, step {progress.step:,}{total}{left}"
        two = width >= LEAST
        each = (width - 2) // 2 if two else width
        drawn = []
        for name in [*curves.metrics][: 1 if two else 0]:
            cut = [one.step for one in curves.breaks]
            drawn.append(_chart(name, runs(thinned(curves.points(name)), cut), each, format_figure))
        if curves.memory.latest:
            cut = [one.left for one in curves.breaks]
            drawn.append(_chart("memory", runs(thinned(curves.memory.points()), cut), each, format_bytes))
        if not drawn:
            return ["", head[:width]]
        rows = zip(*drawn, strict=True) if two else [(row,) for row in drawn[0]]
        return ["", head[:width], *("  ".join(f"{part:<{each}}" for part in row).rstrip() for row in rows)]

    def _read(self, job: JobView) -> Curves:
        if job.id not in self._curves:
            for reader, _ in self._curves.values():
                reader.close()
            _, paths = find_mine(self.settings, job.id)
            kinds = frozenset({"metrics", "progress", "state"})
            self._curves = {job.id: (JournalReader(paths.journal, only=kinds), Curves())}
        reader, curves = self._curves[job.id]
        for entry in reader.read():
            curves.take(entry.event, entry.time)
        return curves

    def _footer(self, width: int, *, colours: bool) -> str:
        if self.asking is not None and self.job is not None:
            line = f"{self.asking} {self.job.name}? y: yes, any other key: no"[:width]
            return f"{BOLD}{line}{RESET}" if colours else line
        keys = "q quit  j k choose a job  " + "  ".join(f"{key} {verb}" for key, verb in VERB_KEYS.items())
        line = (self.said or (keys if self.jobs else "q quit"))[:width]
        return f"{DIM}{line}{RESET}" if colours else line


def _chart(name: str, stretches: Sequence[Sequence[Point]], width: int, written: Any) -> list[str]:
    """With a gap between two stretches: nothing ran there."""
    points = [point for stretch in stretches for point in (*stretch, (stretch[-1][0], None))]
    values = [y for _, y in points if y is not None] or [0.0]
    return chart(f"{name} {written(values[-1])}", points, width, HEIGHT, (written(max(values)), written(min(values))))


def watch(settings: Settings) -> None:
    """On the terminal, until `q` or Ctrl-C."""
    state = WatchScreen(settings)
    colours = wanted(os.environ, tty=True)
    with _screen(), _keys() as keys:
        while not state.ended:
            state.look()
            due = time.monotonic() + EVERY
            while not state.ended:
                _draw(state, colours=colours)
                key = keys(max(0.0, due - time.monotonic()))
                if not key:
                    break
                state.press(key)


def _draw(state: WatchScreen, *, colours: bool) -> None:
    size = shutil.get_terminal_size()
    lines = state.lines(size.columns, size.lines, colours=colours)
    # Line by line over the old text: without a moment of empty screen.
    sys.stdout.write("\x1b[H" + "\n".join(f"{line}\x1b[K" for line in lines) + "\x1b[J")
    sys.stdout.flush()


@contextmanager
def _screen() -> Iterator[None]:
    """A screen of our own, so that what stood in the terminal stands there afterwards."""
    sys.stdout.write("\x1b[?1049h\x1b[?25l")
    try:
        yield
    finally:
        sys.stdout.write("\x1b[?25h\x1b[?1049l")
        sys.stdout.flush()


@contextmanager
def _keys() -> Iterator[Any]:
    """What waits for a key for so many seconds; empty: there was none."""
    if not sys.stdin.isatty():

        def none(patience: float) -> str:
            time.sleep(patience)
            return ""

        yield none
        return
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    tty.setcbreak(fd)

    def key(patience: float) -> str:
        if not select.select([fd], [], [], patience)[0]:
            return ""
        return os.read(fd, 16).decode(errors="replace")  # an arrow comes as several characters at once

    try:
        yield key
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
