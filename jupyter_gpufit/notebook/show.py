"""How a job's events look: in a notebook, inside an Output widget, in a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import BadSetting, CellFailed, cell_failure
from ..jobs.events import (
    Clear,
    Display,
    Event,
    Failure,
    Note,
    Result,
    Saved,
    StateChange,
    Text,
    WidgetMessage,
)
from ..jobs.job import Job
from ..jobs.journal import JournalReader
from ..jobs.state import LEFT, OVER
from ..jobs.words import StatusLine, told
from .outputs import Outputs
from .saved import Likeness, Still, html_of, sentence, text_of

if TYPE_CHECKING:  # the command line shows jobs too, and must not wait for IPython
    from IPython.core.interactiveshell import InteractiveShell

    from ..jobs.follow import Show
    from ..jobs.paths import JobPaths
    from .mirrors import Mirrors


def cell_failed(failure: Failure, came: Exception | None = None) -> CellFailed:
    """An exception whose type has the name of the user's, for whoever reads the notebook's error reply.

    `came`: the user's own, which the notebook is to see in its place.
    """
    failed = cell_failure(failure.ename, failure.evalue, failure.traceback)
    failed.came = came
    return failed


class EventCard(Protocol):
    """What shows a job's progress beside its output: widget.JobCard."""

    def take(self, event: Event, when: float) -> None: ...


def with_card(show: Show, card: EventCard | None) -> Show:
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


STATUS = "gpufit-status"  # the display of a detached job that says how it is
SEEN = frozenset({"widget", "text", "display", "result", "clear", "failure"})  # events that make widgets


class WidgetsOfJob:
    """The mirrors of a job's widgets, once it has any: kernels whose cells have none start faster without."""

    def __init__(self, job: Job, paths: JobPaths) -> None:
        self._job, self._paths = job, paths
        self._mirrors: Mirrors | None = None

    def send(self, widgets: Mapping[str, Any]) -> None:
        """Speak for the job with these, too: the notebook's own, by their names in the browser."""
        if widgets:
            from .mirrors import Mirrors

            self._mirrors = Mirrors(self._job, self._paths, widgets)

    def take(self, event: Event) -> bool:
        """Whether it was theirs, and is shown."""
        if isinstance(event, WidgetMessage):
            if self._mirrors is None:
                from .mirrors import Mirrors

                self._mirrors = Mirrors(self._job, self._paths)
            self._mirrors.take(event)
            return True
        if self._mirrors is None:
            return False
        if isinstance(event, StateChange) and event.state in LEFT:
            self._mirrors.leave()
        return self._mirrors.caught(event)

    def catch_up(self, until: int) -> list[Display]:
        """Of a job that goes on, in a kernel that has not seen it: its widgets as they were left, to be shown here."""
        if self._mirrors is not None or not until:
            return []
        reader, views = JournalReader(self._paths.journal, only=SEEN), []
        try:
            for event in (entry.event for entry in reader.read() if entry.seq <= until):
                caught = self.take(event)  # also what was written within an Output
                if isinstance(event, Display) and not caught and not event.update:
                    views += [event] if event.transient.get("gpufit_widget") else []
        finally:
            reader.close()
        return views

    def shown(self, display: Display) -> dict[str, Any]:
        """What to display of it."""
        return display.data if self._mirrors is None else self._mirrors.shown(display)


class NotebookShow:
    """Shows events as output of the running cell, with one status line that changes in place."""

    def __init__(
        self,
        shell: InteractiveShell,
        job: Job,
        paths: JobPaths,
        is_news: Callable[[str], bool],
        widgets: WidgetsOfJob,
        *,
        has_card: bool = False,
    ) -> None:
        self._shell = shell
        self._paths = paths
        self._widgets = widgets
        self._has_card = has_card  # it says the same, also in the notebook's file
        self._is_news = is_news  # of what need be said once
        self._job = job
        self._status = StatusLine(job)
        self._display_id = f"gpufit-{job.id}-{time.monotonic_ns()}"
        self._begun = False
        self._clears = False  # the next output takes away what stands here
        self._stream = ""  # what was written to last
        self._here: set[str] = set()  # displays that stand in this cell, by their display_id
        self.failure: Failure | None = None
        self._epoch = 0  # of the worker that speaks

    def __call__(self, event: Event, when: float | None = None) -> None:
        if self._status.take(event, when or time.time()) and not self._has_card:
            self._show_status()
        if isinstance(event, StateChange) and event.state not in OVER and event.epoch > self._epoch:
            self._epoch, self.failure = event.epoch, None  # that was of a run before this one: the job was resumed
        if self._widgets.take(event):
            return
        match event:
            case Text(name, text):
                self._write(name, text)
            case Display(_, metadata, transient, update):
                if update and self._stood_elsewhere(transient.get("display_id")):
                    update = False
                self._here.add(transient.get("display_id", ""))
                shown = self._widgets.shown(event)
                self._shell.display_pub.publish(shown, metadata, transient=transient, update=update)
            case Result(data, metadata):
                _show_result(self._shell, data, metadata)
            case Clear(wait):
                self._shell.display_pub.clear_output(wait)
                self._clears = True
            case Failure():
                self.failure = event  # raised by the magic at the end, so that it is this cell's error
            case _ if _is_said(event, self._is_news) and (words := told(self._job, event)):
                self._publish(words, {})
        if self._clears and (event == Clear(wait=False) or _is_output(event)):
            self._clears = False
            self._show_status_anew()

    def _write(self, name: str, text: str) -> None:
        """Write to the stream of that name, behind what was written to the other: a kernel sends each when it likes."""
        streams = {"stdout": sys.stdout, "stderr": sys.stderr}
        if self._stream not in ("", name):
            streams[self._stream].flush()
        self._stream = name
        streams[name].write(text)

    def _stood_elsewhere(self, name: str | None) -> bool:
        """Whether the job showed this display before a resume: there it may be gone, so that it comes here, too."""
        if name is None or name in self._here:
            return False
        reader = JournalReader(self._paths.journal, only=frozenset({"display"}))
        try:
            shown = [entry.event for entry in reader.read() if isinstance(entry.event, Display)]
        finally:
            reader.close()
        return any(event.transient.get("display_id") == name and not event.update for event in shown)

    def _show_status(self) -> None:
        from IPython.core.displaypub import CapturingDisplayPublisher

        if isinstance(self._shell.display_pub, CapturingDisplayPublisher):
            return  # of %%capture, which keeps each look of a line, and shows all of them below each other
        name = {"display_id": self._display_id}
        self._publish(self._status.line(errors=False), name, update=self._begun, metadata=self._status.mark)
        self._begun = True

    def _show_status_anew(self) -> None:
        """The line was cleared away, with all that the cell had shown."""
        if self._begun:
            self._begun, self._display_id = False, f"gpufit-{self._job.id}-{time.monotonic_ns()}"
            self._show_status()

    def _publish(
        self,
        text: str,
        transient: dict[str, str],
        *,
        update: bool = False,
        metadata: dict[str, dict[str, str]] | None = None,
    ) -> None:
        self._shell.display_pub.publish(_quiet(text), metadata or {}, transient=transient, update=update)


def _is_output(event: Event) -> bool:
    """Whether it makes a browser do what `clear_output(wait=True)` has put off."""
    return isinstance(event, Text | Result) or (isinstance(event, Display) and not event.update)


class WidgetShow:
    """Shows a detached cell's events in an ipywidgets Output, which it puts under the cell; from whichever thread."""

    def __init__(
        self, output: Any, job: Job, is_news: Callable[[str], bool], widgets: WidgetsOfJob, *, has_card: bool = False
    ) -> None:
        self._outputs = Outputs(output)
        self._has_card = has_card  # it says how the job is
        self._widgets = widgets
        self._is_news = is_news
        self._job = job
        self._status = StatusLine(job)
        self._still = Still(output, f"gpufit-output-{job.id}-{time.monotonic_ns()}", has_output=True)
        self._still.show(self._look())

    def __call__(self, event: Event, when: float | None = None) -> None:
        if self._status.take(event, when or time.time()) and not self._has_card:
            self._outputs.display(_quiet(self._status.line()), {}, STATUS)
        if not self._widgets.take(event):
            self._show(event)
        if isinstance(event, StateChange):
            self._outputs.tell()
            self._still.renew(self._look)
        else:
            self._still.tell(self._look, time.monotonic())

    def _show(self, event: Event) -> None:
        match event:
            case Text(name, text):
                self._outputs.write(name, text)
            case Display(_, metadata, transient):
                self._outputs.display(self._widgets.shown(event), metadata, transient.get("display_id"))
            case Result(data, metadata):
                self._outputs.display(data, metadata)
            case Clear():
                self._outputs.clear(keep=STATUS)  # what the cell showed: not how it is
            case Failure(_, _, traceback):
                self._outputs.write("stderr", "\n".join(traceback) + "\n")
            case _ if _is_said(event, self._is_news) and (words := told(self._job, event)):
                self._outputs.display(_quiet(words), {})

    def _look(self) -> Likeness:
        outputs = self._outputs.all()
        return Likeness(text_of(outputs) or self._status.line(), html_of(outputs), self._status.mark)


def _quiet(text: str) -> dict[str, Any]:
    """In our own words, beside the cell's."""
    return {"text/plain": text, "text/html": f'<div style="opacity:.7;font-size:90%">{sentence(text)}</div>'}


def _is_said(event: Event, is_news: Callable[[str], bool]) -> bool:
    """Whether to say it here."""
    if isinstance(event, Saved):
        return False  # it stands in the status line, and whoever asked for it is answered where they asked
    return not (isinstance(event, Note) and event.once) or is_news(event.text)


def _show_result(shell: InteractiveShell, data: dict[str, Any], metadata: dict[str, Any]) -> None:
    """Show a formatted value as this cell's Out[n]."""
    hook = shell.displayhook
    hook.start_displayhook()
    hook.write_output_prompt()
    hook.write_format_data(data, metadata)
    hook.finish_displayhook()
