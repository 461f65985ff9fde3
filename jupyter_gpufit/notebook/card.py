"""The card under a cell: how far a job is, its curves, and the same buttons as the panel's; plain ipywidgets.

So it is there in every front end that shows widgets, with the panel or without. It is made when a cell first needs it,
never when the extension loads: a widget from before a kernel's restart would be a ruin in the notebook.
"""

from __future__ import annotations

import html
import threading
import time
from collections.abc import Callable
from typing import Any

import anyio
from ipywidgets import HTML, Box, Button, Layout, ToggleButton, VBox

from ..actions.buttons import on_job
from ..actions.possible import why_not
from ..actions.status import read_job
from ..errors import GpufitError
from ..jobs.curves import Curves
from ..jobs.events import Event, Metrics, ProgressMark, StateChange
from ..jobs.job import Job
from ..jobs.paths import JobPaths
from ..jobs.picked import MOST, pick, picked, shown
from ..jobs.verbs import VERBS, WORDS, Verb
from ..jobs.words import StatusLine
from ..settings import Settings
from ..units import format_bytes, format_duration, format_figure, out_of
from .pictures import in_text, picture
from .saved import Likeness, Still, sentence

EVERY = 0.25  # seconds between two drawings: an attach replays a whole journal
LONGEST_CHIP = 30  # characters of a number's name
_SAID = "font-size:90%;line-height:1.5"


class JobCard:
    """One job's card; events may come from any thread, one at a time."""

    def __init__(self, job: Job, paths: JobPaths, settings: Settings) -> None:
        self._job, self._paths, self._settings = job, paths, settings
        self._line = StatusLine(job)
        self._curves = Curves()
        self._drawn = 0.0  # time.monotonic()
        self._guard = threading.RLock()  # events come in one thread, a click in another
        self._head, self._pictures, self._said = HTML(), HTML(), HTML()
        self._chips: dict[str, ToggleButton] = {}
        self._latest = _chip("latest only", "Draw the latest thousand points, and not the whole run.")
        self._latest.observe(lambda _: self.draw(), "value")
        self._choice = Box(layout=Layout(flex_flow="row wrap", display="none"))
        self._buttons = {verb: self._button(verb) for verb in VERBS}
        buttons = Box([*self._buttons.values()], layout=Layout(flex_flow="row wrap"))
        self._lost = HTML()
        self._question = VBox([self._lost, self._answers()], layout=Layout(display="none"))
        self.box = VBox(
            [self._head, self._choice, self._pictures, buttons, self._question, self._said],
            layout=Layout(border="1px solid var(--jp-border-color2, #ddd)", padding="4px 8px"),
        )
        self.box.add_class("jp-gpufit-under-cell")
        self._still = Still(self.box, f"gpufit-card-{job.id}-{time.monotonic_ns()}")
        self.draw()

    def show(self) -> None:
        """Put it under the cell."""
        self._still.show(self._look())

    def take(self, event: Event, when: float) -> None:
        """Take in an event of that time; whatever goes wrong, the job's output must go on being shown."""
        try:
            self._take(event, when)
        except Exception as error:
            self._say(f"This card stands still: {error!r}. For another one: `%gpufit attach {self._job.name} --widget`")

    def _take(self, event: Event, when: float) -> None:
        with self._guard:
            self._line.take(event, when)
            self._curves.take(event, when)
            soon = isinstance(event, Metrics | ProgressMark) and time.monotonic() - self._drawn > EVERY
            if soon or isinstance(event, StateChange):
                self.draw()
            if isinstance(event, StateChange):
                self._still.renew(self._look)
            else:
                self._still.tell(self._look, time.monotonic())

    def _look(self) -> Likeness:
        with self._guard:
            text = "\n".join([self._line.line(), *map(self._in_text, shown(self._curves.metrics, picked(self._paths)))])
            return Likeness(text, self._head.value + self._pictures.value, self._line.mark)

    def _in_text(self, name: str) -> str:
        points = self._curves.points(name)
        return f"{name} {format_figure(points[-1][1])}  {in_text(points)}".rstrip()

    def draw(self) -> None:
        """Show what is known now."""
        with self._guard:
            self._drawn = time.monotonic()
            view = read_job(self._job, self._paths)
            names = shown(self._curves.metrics, picked(self._paths))
            self._offer(names)
            estimate = view.memory.estimate if view.memory else None
            _set(self._head, _head(self._line.line(), view.progress.total, view.progress.step, view.progress.left))
            _set(self._pictures, "".join(map(self._metric, names)) + self._memory(estimate))
            for verb, button in self._buttons.items():
                why = why_not(view, verb)
                button.disabled, button.tooltip = bool(why), why or WORDS[verb].tooltip
            if why_not(view, "stop"):
                self._question.layout.display = "none"  # it ended meanwhile

    # Curves -----------------------------------------------------------------------------------------------------------

    def _offer(self, drawn: tuple[str, ...]) -> None:
        """Let it be picked which of several numbers are drawn, and from when on."""
        for name in list(self._curves.metrics)[:MOST]:
            if name not in self._chips:
                self._chips[name] = chip = _chip(name, f"Draw {name}, here and in the panel.")
                chip.observe(self._pick, "value")
        for name, chip in self._chips.items():
            if chip.value != (name in drawn):  # it was picked elsewhere
                chip.unobserve(self._pick, "value")
                chip.value = name in drawn
                chip.observe(self._pick, "value")
        several = list(self._chips.values()) if len(self._chips) > 1 else []
        offered = (*several, *([self._latest] if self._curves.older else []))
        if offered != self._choice.children:
            self._choice.children = offered
            self._choice.layout.display = "" if offered else "none"

    def _pick(self, _: Any) -> None:
        try:
            pick(self._paths, [name for name, chip in self._chips.items() if chip.value])
        except GpufitError as error:
            self._say(str(error))
        self.draw()

    def _metric(self, name: str) -> str:
        points = self._curves.points(name, whole=self._whole)
        at, value = points[-1]
        latest = format_figure(value)
        cuts = [one.step for one in self._curves.breaks]
        return picture(points, name, latest, words=f"{name}: {latest} at step {at:,.0f}", cuts=cuts)

    def _memory(self, estimate: int | None) -> str:
        curve = self._curves.memory
        if not curve.latest:
            return ""
        now = curve.latest[-1][1] or 0.0
        used = f"{out_of(now, estimate)} estimated" if estimate else format_bytes(now)
        cuts = [one.left for one in self._curves.breaks]
        words = f"memory: {used}"
        points = curve.points(whole=self._whole)
        return picture(points, "memory", used, words=words, line=estimate, cuts=cuts, written=format_bytes)

    @property
    def _whole(self) -> bool:
        """Whether the whole run is drawn, and not its latest part."""
        return not (self._latest.value and self._curves.older)

    # Buttons ----------------------------------------------------------------------------------------------------------

    def _button(self, verb: Verb) -> Button:
        press = self._ask if verb == "stop" else lambda: self._press(verb)
        return _button(WORDS[verb].label, WORDS[verb].tooltip, press)

    def _answers(self) -> Box:
        gentle = _button(
            "Save and stop",
            "It ends at its next safe point, and can be resumed from there.",
            lambda: self._answer("release"),
        )
        stop = _button("Stop without saving", "What is not saved is lost.", lambda: self._answer("stop"))
        keep = _button("Go on", "Do nothing.", lambda: self._answer(None))
        return Box([gentle, stop, keep], layout=Layout(flex_flow="row wrap"))

    def _ask(self) -> None:
        """What is meant by a stop: to lose what is not saved, or to save it first."""
        view = read_job(self._job, self._paths)
        if view.kind == "model" or why_not(view, "release"):
            self._press("stop")  # there is nothing to lose, or no way to keep it
            return
        kept = view.checkpoint
        since = f"What it did since step {kept.step:,} is lost." if kept else ""
        lost = since or "It has no checkpoint: what it did so far is lost."
        _set(self._lost, f'<div style="{_SAID}">Stop {html.escape(self._job.name)}? {lost}</div>')
        self._question.layout.display = ""

    def _answer(self, verb: Verb | None) -> None:
        self._question.layout.display = "none"
        if verb is not None:
            self._press(verb)

    def _press(self, verb: Verb) -> None:
        """In a thread: a handler that waits would hold up the kernel, and what it prints would be seen nowhere."""
        self._say(f"{WORDS[verb].label} …")
        thread = threading.Thread(target=_do, args=(self._job, verb, self._settings, self._say, self.draw))
        thread.daemon = True
        thread.start()

    def _say(self, text: str) -> None:
        _set(self._said, f'<div role="status" style="{_SAID};opacity:.8">{sentence(text)}</div>')


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


def _button(label: str, tells: str, press: Callable[[], None]) -> Button:
    button = Button(description=label, tooltip=tells, layout=Layout(width="auto"))
    button.on_click(lambda _: press())
    return button


def _chip(text: str, tells: str) -> ToggleButton:
    return ToggleButton(
        description=text[:LONGEST_CHIP],
        tooltip=tells,
        layout=Layout(width="auto", padding="0 8px"),
        style={"font_size": "85%"},
    )


def _set(widget: HTML, value: str) -> None:
    if widget.value != value:  # each change is a message to every page that shows it
        widget.value = value


def _head(line: str, total: int | None, step: int, left: float | None) -> str:
    parts = [f'<div style="overflow-wrap:anywhere;line-height:1.5">{sentence(line)}</div>']
    if total:
        share = min(1.0, step / total)
        # At which step it is stands in the line above, which may be of another moment.
        rest = f", {format_duration(left)} left" if left is not None else ""
        told = f"{100 * share:.0f} % of {total:,} steps{rest}"
        parts.append(
            f'<div role="progressbar" aria-label="progress" aria-valuemin="0" aria-valuemax="{total}"'
            f' aria-valuenow="{step}" aria-valuetext="{html.escape(told)}"'
            ' style="height:5px;border-radius:3px;margin:3px 0;background:var(--jp-layout-color3, #ddd)">'
            f'<div style="width:{100 * share:.1f}%;height:100%;border-radius:3px;'
            'background:var(--jp-brand-color1, #1976d2)"></div></div>'
            f'<div style="font-size:85%;line-height:1.5;opacity:.75">{html.escape(told)}</div>'
        )
    return "".join(parts)
