"""What is said of a job's events, everywhere in the same words; pure."""

from __future__ import annotations

from ..units import format_bytes, format_duration, where_words
from .events import CouldNotSave, Event, Failure, Gap, Note, ProgressMark, Saved, StateChange, step_words
from .job import Job
from .state import ENDED, GOING, LEFT

BROKEN = ("failed", "lost")
SIGNS = {"done": "✓", "failed": "✗", "stopped": "■", "lost": "✗", "queued": "…", "running": "▶", "released": "⏏"}


def saved(event: Saved) -> str:
    """ "saved at step 1,204 (line 12 of the cell): 1.4 GiB, paused for 0.10 s, on disk after 0.8 s" """
    return (
        f"saved at step {event.step:,} ({event.where}): {format_bytes(event.bytes)}, paused for"
        f" {event.pause:.2f} s, on disk after {event.seconds:.1f} s"
    )


def told(job: Job, event: Event) -> str:
    """An event in our own words, for all who show it; empty where it is the cell's own output, or a state."""
    match event:
        case Note(text):
            return text
        case Saved():
            return f"{job.name} is {saved(event)}"
        case CouldNotSave(_, reason, "move") if job.kind == "model":
            return f"{job.name} was not moved, and goes on where it is: {reason}"
        case CouldNotSave(_, reason):
            return f"{job.name} was not saved, and goes on: {reason}"
        case Gap(missed, why):
            return f"{missed:,} {'output is' if missed == 1 else 'outputs are'} missing here: {why}."
    return ""


class StatusLine:
    """One line about a job: where it is, why it waits, how far it has come."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._began = job.created
        self._ran = 0.0  # seconds, before it began for the last time
        self._time = job.created
        self._change = StateChange("starting")
        self._progress: ProgressMark | None = None
        self._peak = 0  # bytes, of all its processes
        self._saved: Saved | None = None
        self._told = False  # its error, with all lines of it

    def take(self, event: Event, when: float) -> bool:
        """Take in an event of that time; True when the line has changed."""
        before, self._time = self._time, when
        if isinstance(event, StateChange):
            went, goes = self._change.state in GOING, event.state in GOING
            if goes and not went:
                self._began = when
            elif went and not goes:  # where its worker was killed, what it said last is its end
                self._ran += (when if event.state in LEFT else before) - self._began
            self._change, self._told = event, self._told and event.state in BROKEN  # else it was resumed
        elif isinstance(event, Failure):
            self._told = True
        elif isinstance(event, ProgressMark):
            self._progress = event
            self._peak = max(self._peak, event.peak)  # after a resume or a move another process counts anew
        elif isinstance(event, Saved):
            self._saved = event
        return isinstance(event, StateChange | ProgressMark | Saved)

    @property
    def ended(self) -> bool:
        return self._change.state in LEFT

    @property
    def mark(self) -> dict[str, dict[str, str]]:
        """Of a display that shows the line: the metadata by which the panel finds it in a file, and renews it."""
        return {"gpufit": {"job": self._job.id, "state": self._change.state}}

    def line(self, *, errors: bool = True) -> str:
        """With the error that ended it, but not where that was told, or is told below."""
        change, progress = self._change, self._progress
        sign = SIGNS.get(change.state, "…")
        parts = [f"{sign} {self._job.name}: {change.state}"]
        if change.device:
            parts[0] += f" {'from' if change.state == 'moving' else 'on'} {where_words(change.device)}"
        if change.state in BROKEN and (self._told or not errors):
            pass
        elif change.reason.startswith(change.state):
            parts[0] = f"{sign} {self._job.name}: {change.reason}"  # "released at step 3; ..." says the state, too
        elif change.reason.startswith("to "):
            parts[0] += f" {change.reason}"  # "moving from GPU 0 to GPU 1, from its next safe point"
        elif change.reason:
            parts.append(change.reason)
        if progress is not None:
            if progress.step and f"step {progress.step:,}" not in parts[0]:  # "released at step 3"
                parts.append(f"step {progress.step:,}")
            if progress.pace:
                parts.append(progress.pace)
            now = f"{format_bytes(progress.used)}, " if change.device else ""  # without a device it takes nothing
            host = f", {format_bytes(progress.host)} on the host" if progress.host else ""
            parts.append(f"{now}peak {format_bytes(self._peak)}{host}")
        if self._saved is not None and change.state not in LEFT:
            parts.append(f"saved at {step_words(self._saved.step, self._saved.exact)}")
        if change.state in ENDED:
            parts.append(f"after {format_duration(self._ran or self._time - self._began)}")
        return " · ".join(parts)
