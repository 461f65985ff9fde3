"""How a job's events look: in a notebook, inside an Output widget, in a terminal."""

from __future__ import annotations

import html
import sys
import time
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from .errors import BadSetting, GpufitError
from .job import ENDED, LEFT, Job
from .units import format_bytes, format_duration
from .worker.messages import (
    Clear,
    CouldNotSave,
    Display,
    Event,
    Failure,
    Gap,
    Note,
    Progress,
    Result,
    Saved,
    StateChange,
    Text,
    step_words,
)

if TYPE_CHECKING:  # the command line shows jobs too, and must not wait for IPython
    from IPython.core.interactiveshell import InteractiveShell

    from .worker.follow import Show

SIGNS = {"done": "✓", "failed": "✗", "stopped": "■", "lost": "✗", "queued": "…", "running": "▶", "released": "⏏"}


def saved(event: Saved) -> str:
    """ "saved at step 1,204 (line 12 of the cell): 1.4 GiB, stood still for 0.10 s, durable after 0.8 s" """
    return (
        f"saved at step {event.step:,} ({event.where}): {format_bytes(event.bytes)}, stood still for"
        f" {event.pause:.2f} s, durable after {event.seconds:.1f} s"
    )


def not_saved(job: Job, reason: str) -> str:
    """What became of a checkpoint that came to nothing."""
    return f"{job.name} was not saved, and goes on: {reason}"


class CellFailed(GpufitError):
    """The cell's own exception, as the worker showed it; IPython prints its traceback in place of ours."""

    def __init__(self, failure: Failure) -> None:
        Exception.__init__(self, failure.evalue)
        self.failure = failure

    def __str__(self) -> str:
        return self.failure.evalue

    def __reduce__(self) -> Any:
        return cell_failed, (self.failure,)

    def _render_traceback_(self) -> list[str]:
        return list(self.failure.traceback)


def cell_failed(failure: Failure) -> CellFailed:
    """An exception whose type has the name of the user's, for whoever reads the notebook's error reply."""
    kind: type[CellFailed] = type(failure.ename, (CellFailed,), {})
    return kind(failure)


class Status:
    """One line about a job: where it is, why it waits, how far it has come."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._began = job.created
        self._time = job.created
        self._change = StateChange("starting")
        self._progress: Progress | None = None
        self._saved: Saved | None = None

    def take(self, event: Event, when: float) -> bool:
        """Take in an event of that time; True when the line has changed."""
        self._time = when
        if isinstance(event, StateChange):
            if event.state == "running" and self._change.state not in ("running", "saving", "moving"):
                self._began = when
            self._change = event
        elif isinstance(event, Progress):
            self._progress = event
        elif isinstance(event, Saved):
            self._saved = event
        return isinstance(event, StateChange | Progress | Saved)

    @property
    def ended(self) -> bool:
        return self._change.state in LEFT

    def line(self) -> str:
        change, progress = self._change, self._progress
        sign = SIGNS.get(change.state, "…")
        parts = [f"{sign} {self._job.name}: {change.state}"]
        if change.device:
            parts[0] += f" on {change.device}"
        if change.reason.startswith(change.state):
            parts[0] = f"{sign} {self._job.name}: {change.reason}"  # "released at step 3; ..." says the state, too
        elif change.reason:
            parts.append(change.reason)
        if progress is not None:
            if progress.step:
                parts.append(f"step {progress.step:,}")
            if progress.pace:
                parts.append(progress.pace)
            parts.append(f"{format_bytes(progress.used)}, at most {format_bytes(progress.peak)}")
        if self._saved is not None and change.state not in LEFT:
            parts.append(f"saved at {step_words(self._saved.step, self._saved.exact)}")
        if change.state in ENDED:
            parts.append(f"after {format_duration(self._time - self._began)}")
        return " · ".join(parts)


class Card(Protocol):
    """What shows a job's progress beside its output: widget.JobCard."""

    def take(self, event: Event, when: float) -> None: ...


def with_card(show: Show, card: Card | None) -> Show:
    """What shows an event in the card, too."""
    if card is None:
        return show

    def both(event: Event, when: float | None = None) -> None:
        card.take(event, when or time.time())
        show(event, when)

    return both


def wants_card(setting: str, option: bool | None, *, apart: bool) -> bool:
    """Whether to show a card: by default where a cell does not wait for its job, or where one attaches to it."""
    if setting not in ("auto", "always", "never"):
        raise BadSetting("widget", "GPUFIT_WIDGET or settings.toml", f"{setting!r} is not auto, always or never.")
    if option is not None:
        return option
    return setting == "always" or (setting == "auto" and apart)


class NotebookShow:
    """Shows events as output of the running cell, with one status line that changes in place."""

    def __init__(self, shell: InteractiveShell, job: Job, said: set[str], *, has_card: bool = False) -> None:
        self._shell = shell
        self._has_card = has_card  # it says the same while it lives; the notebook's file keeps how it ended
        self._said = said  # in this kernel, of what need be said once
        self._job = job
        self._status = Status(job)
        self._display_id = f"gpufit-{job.id}-{time.monotonic_ns()}"
        self._begun = False
        self.failure: Failure | None = None

    def __call__(self, event: Event, when: float | None = None) -> None:
        if self._status.take(event, when or time.time()) and (self._status.ended or not self._has_card):
            self._show_status()
        match event:
            case Text(name, text):
                (sys.stdout if name == "stdout" else sys.stderr).write(text)
            case Display(data, metadata, transient, update):
                self._shell.display_pub.publish(data, metadata, transient=transient, update=update)
            case Result(data, metadata):
                _show_result(self._shell, data, metadata)
            case Clear(wait):
                self._shell.display_pub.clear_output(wait)
            case Failure():
                self.failure = event  # raised by the magic at the end, so that it is this cell's error
            case Note(text) if _is_news(event, self._said):
                self._publish(text, {})
            case Saved() if event.why != "automatic":  # those stand in the status line only
                self._publish(f"{self._job.name} is {saved(event)}", {})
            case CouldNotSave(_, reason):
                self._publish(not_saved(self._job, reason), {})
            case Gap(missed, why):
                self._publish(f"{missed:,} outputs are missing here: {why}.", {})

    def _show_status(self) -> None:
        self._publish(self._status.line(), {"display_id": self._display_id}, update=self._begun)
        self._begun = True

    def _publish(self, text: str, transient: dict[str, str], *, update: bool = False) -> None:
        shown = f'<div style="opacity:.7;font-size:90%">{html.escape(text)}</div>'
        data = {"text/plain": text, "text/html": shown}
        self._shell.display_pub.publish(data, {}, transient=transient, update=update)


class WidgetShow:
    """Shows events in an ipywidgets Output, from whichever thread; for a detached cell."""

    def __init__(self, output: Any, job: Job, said: set[str]) -> None:
        self._output = output
        self._said = said
        self._job = job
        self._status = Status(job)

    def __call__(self, event: Event, when: float | None = None) -> None:
        self._status.take(event, when or time.time())
        match event:
            case Text(name, text):
                (self._output.append_stdout if name == "stdout" else self._output.append_stderr)(text)
            case Display(data, metadata) | Result(data, metadata):
                self._output.outputs += ({"output_type": "display_data", "data": data, "metadata": metadata},)
            case Clear():
                self._output.outputs = ()
            case Failure(_, _, traceback):
                self._output.append_stderr("\n".join(traceback) + "\n")
            case Note(text) if _is_news(event, self._said):
                self._output.append_stderr(f"{text}\n")
            case Saved() if event.why != "automatic":
                self._output.append_stderr(f"{self._job.name} is {saved(event)}\n")
            case CouldNotSave(_, reason):
                self._output.append_stderr(f"{not_saved(self._job, reason)}\n")
            case StateChange():
                self._output.append_stderr(f"{self._status.line()}\n")


class TerminalShow:
    """Prints events: the cell's stdout to stdout, everything else to stderr."""

    def __init__(self, job: Job, out: TextIO, err: TextIO) -> None:
        self._out, self._err = out, err
        self._job = job
        self._status = Status(job)
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
            case Note(text):
                self._print(self._err, f"{text}\n")
            case Saved():
                self._print(self._err, f"{self._job.name} is {saved(event)}\n")
            case CouldNotSave(_, reason):
                self._print(self._err, f"{not_saved(self._job, reason)}\n")
            case Gap(missed, why):
                self._print(self._err, f"{missed:,} outputs are missing here: {why}.\n")
            case StateChange():
                self._print(self._err, f"{self._status.line()}\n")

    def _print(self, stream: TextIO, text: str) -> None:
        stream.write(text)
        stream.flush()


def _is_news(note: Note, said: set[str]) -> bool:
    """Whether to show a note where `said` was shown, to which it is added if once is enough."""
    news = note.text not in said
    if note.once:
        said.add(note.text)
    return news


def _show_result(shell: InteractiveShell, data: dict[str, Any], metadata: dict[str, Any]) -> None:
    """Show a formatted value as this cell's Out[n]."""
    hook = shell.displayhook
    hook.start_displayhook()
    hook.write_output_prompt()
    hook.write_format_data(data, metadata)
    hook.finish_displayhook()
