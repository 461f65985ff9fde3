"""The card under a cell: how far a job is, its curves, and the same buttons as the panel's; plain ipywidgets.

So it is there in every front end that shows widgets, with the panel or without. It is made when a cell first needs it,
never when the extension loads: a widget from before a kernel's restart would be a ruin in the notebook.
"""

from __future__ import annotations

import html
import threading
import time
from collections import deque
from collections.abc import Callable

import anyio
from ipywidgets import HTML, Button, Dropdown, HBox, Layout, VBox

from .buttons import on_job
from .curves import figure, picture
from .errors import GpufitError
from .job import Job, JobPaths
from .possible import Verb, why_not
from .settings import Settings
from .show import Status
from .status import read_job
from .units import format_bytes, format_duration
from .worker.messages import Event, Metrics, Progress, StateChange

POINTS = 1000  # kept of each curve
EVERY = 0.25  # seconds between two drawings: an attach replays a whole journal
LABELS: dict[Verb, str] = {
    "checkpoint": "Checkpoint",
    "release": "Release",
    "move": "Move",
    "resume": "Resume",
    "stop": "Stop",
}


class JobCard:
    """One job's card; events may come from any thread, one at a time."""

    def __init__(self, job: Job, paths: JobPaths, settings: Settings) -> None:
        self._job, self._paths, self._settings = job, paths, settings
        self._line = Status(job)
        self._curves: dict[str, deque[tuple[float, float | None]]] = {}
        self._memory: deque[tuple[float, float | None]] = deque(maxlen=POINTS)
        self._drawn = 0.0  # time.monotonic()
        self._head, self._pictures, self._said = HTML(), HTML(), HTML()
        self._choice = Dropdown(options=[], layout=Layout(width="10em", display="none"), description_allow_html=False)
        self._choice.observe(lambda _: self.draw(), "value")
        self._buttons = {verb: self._button(verb) for verb in LABELS}
        self.box = VBox(
            [self._head, self._pictures, HBox([*self._buttons.values(), self._choice]), self._said],
            layout=Layout(border="1px solid var(--jp-border-color2, #ddd)", padding="4px 8px"),
        )
        self.draw()

    def take(self, event: Event, when: float) -> None:
        """Take in an event of that time; whatever goes wrong, the job's output must go on being shown."""
        try:
            self._take(event, when)
        except Exception as error:
            self._say(f"This card stands still: {error!r}")

    def _take(self, event: Event, when: float) -> None:
        self._line.take(event, when)
        match event:
            case Metrics(step, values):
                for name, value in values.items():
                    self._curves.setdefault(name, deque(maxlen=POINTS)).append((float(step), value))
            case Progress(_, used):
                self._memory.append((when, float(used)))
        if isinstance(event, StateChange):
            self.draw()
        elif isinstance(event, Metrics | Progress) and time.monotonic() - self._drawn > EVERY:
            self.draw()

    def draw(self) -> None:
        """Show what is known now."""
        self._drawn = time.monotonic()
        view = read_job(self._job, self._paths)
        self._offer()
        _set(self._head, _head(self._line.line(), view.progress.total, view.progress.step, view.progress.left))
        _set(self._pictures, self._loss() + self._memory_line(view.memory.estimate if view.memory else None))
        for verb, button in self._buttons.items():
            why = why_not(view, verb)
            button.disabled, button.tooltip = bool(why), why or _TELLS[verb]

    def _offer(self) -> None:
        """Let it be chosen which of several curves is drawn."""
        names = tuple(self._curves)
        if names != self._choice.options:
            chosen = self._choice.value or next((name for name in names if "loss" in name.lower()), None)
            self._choice.options = names
            self._choice.value = chosen if chosen in names else (names[0] if names else None)
        self._choice.layout.display = "" if len(names) > 1 else "none"

    def _loss(self) -> str:
        name = self._choice.value
        points = self._curves.get(name) if name else None
        if not name or not points:
            return ""
        latest = figure(points[-1][1])
        return picture(points, f"{name} {latest}", words=f"{name}: {latest} at step {points[-1][0]:.0f}") or (
            f"<p>{html.escape(name)} {latest}</p>"
        )

    def _memory_line(self, estimate: int | None) -> str:
        if not self._memory:
            return ""
        used = format_bytes(self._memory[-1][1] or 0.0)
        label = f"memory {used}" + (f" of {format_bytes(estimate)} estimated" if estimate else "")
        return picture(self._memory, label, words=label, line=estimate)

    # Buttons ----------------------------------------------------------------------------------------------------------

    def _button(self, verb: Verb) -> Button:
        button = Button(description=LABELS[verb], tooltip=_TELLS[verb], layout=Layout(width="auto"))
        button.on_click(lambda _: self._press(verb))
        return button

    def _press(self, verb: Verb) -> None:
        """In a thread: a handler that waits would hold up the kernel, and what it prints would be seen nowhere."""
        self._say(f"{LABELS[verb]} …")
        thread = threading.Thread(target=_do, args=(self._job, verb, self._settings, self._say, self.draw))
        thread.daemon = True
        thread.start()

    def _say(self, text: str) -> None:
        _set(self._said, f'<span role="status" style="font-size:90%;opacity:.8">{html.escape(text)}</span>')


_TELLS: dict[Verb, str] = {
    "checkpoint": "Save it at its next safe point; it goes on.",
    "release": "Save it, and let it leave its device.",
    "move": "Let it go on on the best other device.",
    "resume": "Let it go on from its newest checkpoint.",
    "stop": "Interrupt it; what was not saved is lost.",
}


def _do(job: Job, verb: Verb, settings: Settings, say: Callable[[str], None], after: Callable[[], None]) -> None:
    async def steps() -> None:
        async for word in on_job(settings, job.id, verb, ""):
            say(word)

    try:
        anyio.run(steps)
    except GpufitError as error:
        say(str(error))
    except BaseExceptionGroup as group:
        say("; ".join(map(str, group.exceptions)))
    except Exception as error:  # the thread's outermost frame
        say(f"jupyter_gpufit itself failed: {error!r}")
    after()


def _set(widget: HTML, value: str) -> None:
    if widget.value != value:  # each change is a message to every page that shows it
        widget.value = value


def _head(line: str, total: int | None, step: int, left: float | None) -> str:
    parts = [f'<div style="overflow-wrap:anywhere">{html.escape(line)}</div>']
    if total:
        share = min(1.0, step / total)
        told = f"step {step:,} of {total:,}" + (f", {format_duration(left)} left" if left is not None else "")
        parts.append(
            f'<div role="progressbar" aria-valuemin="0" aria-valuemax="{total}" aria-valuenow="{step}"'
            f' aria-valuetext="{html.escape(told)}" style="height:5px;border-radius:3px;margin:3px 0;'
            'background:var(--jp-layout-color3, #ddd)">'
            f'<div style="width:{100 * share:.1f}%;height:100%;border-radius:3px;'
            'background:var(--jp-brand-color1, #1976d2)"></div></div>'
            f'<div style="font-size:85%;opacity:.75">{html.escape(told)}</div>'
        )
    return "".join(parts)
