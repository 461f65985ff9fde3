"""What a running job tells of itself once a second: how far it is, its loss and other metrics, what it takes."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import IO, TYPE_CHECKING

import anyio

from ..devices.nvml import read_load
from ..errors import DeviceError
from ..estimate.reckoning.pace import Pace
from ..fit.ladder import moved
from ..jobs.events import DeviceMark, Lap, Metrics, ProgressMark
from ..jobs.live import Live, Memory, Progress, finite
from ..lab.ends import Forecast
from ..system.background import aside
from .copies import Copies
from .finals import told
from .iterations import Iterations
from .loops import Course, Laps, ended_by_items
from .metrics import SampledCurve, Sampler, loss_among
from .points import Points

if TYPE_CHECKING:
    from ..jobs.control import Followers
    from .account import Account
    from .training import Training

EVERY = 1.0  # seconds between two looks
SELDOM = 10.0  # seconds between two questions to the driver


def _of_main_thread() -> Sampler:
    ident = threading.main_thread().ident
    assert ident is not None
    return Sampler(ident)


@dataclass
class Vitals:
    """Looks at the main thread from the control thread; see metrics, loops and variables for how."""

    log: IO[str]  # where a defect of ours is told
    points: Points
    _sampler: Sampler = field(default_factory=_of_main_thread)
    _course: Course = field(default_factory=Course)
    _laps: Laps = field(default_factory=Laps)
    _curve: SampledCurve = field(default_factory=lambda: SampledCurve(time.monotonic()))
    _told: Metrics | None = None
    _fetched: dict[str, float] = field(default_factory=dict)  # from a GPU, the latest of each
    _live: Live = field(default_factory=Live)
    _failed: bool = False

    def __post_init__(self) -> None:
        self._sampler.seen = self.points.seen
        self._copies = Copies(self._sampler.elsewhere)

    def look(
        self,
        step: int,
        pace: Pace,
        memory: Memory,
        iterations: Iterations | None = None,
        later: Callable[[], int] = lambda: 0,
    ) -> tuple[Live, list[Metrics | Lap]]:
        """What there is to tell now, and what of it is worth a point of the curves.

        `iterations` of the loops are the steps, where no optimizer counts them. `later`: the steps by then.
        """
        if not self.points.reading.acquire(blocking=False):
            return replace(self._live, memory=memory), []  # it is being saved: the next look will do
        try:
            self._live, found = self._look(step, pace, memory, iterations, later)
            return self._live, found
        except Exception:  # the objects are the user's, and half made: no reason to end a training
            if not self._failed:
                traceback.print_exc(file=self.log)
                self._failed = True
            return Live(memory=memory), []
        finally:
            self.points.reading.release()

    def _look(
        self, step: int, pace: Pace, memory: Memory, iterations: Iterations | None, later: Callable[[], int]
    ) -> tuple[Live, list[Metrics | Lap]]:
        now, reading = time.monotonic(), self._sampler.look()
        drift = max(0, later() - step)
        fetched = self._copies.arrived()
        if reading.elsewhere and not self._copies.under_way:
            self.points.want_copy(self._copies.take)
        found = {**self._fetched, **fetched, **reading.values} if reading.elsewhere else reading.values
        self._fetched = {**self._fetched, **fetched}
        values = {name: finite(value) for name, value in found.items()}
        taken = step if iterations is None else 0
        nest = ended_by_items(reading.nest)
        progress = self._course.take(now, taken, nest, _rounded(pace.steps_per_second), drift)
        if iterations is not None:
            step = iterations.take(reading.nest, step)
            progress = iterations.told(progress, step)
        live = Live(
            progress=progress,
            loss=self._sampler.loss(found) or self._live.loss,  # of before a resume, until the loop comes to it
            metrics=tuple(values),
            mfu=_rounded(pace.mfu),
            mfu_foreseen=_rounded(pace.mfu_foreseen),
            memory=memory,
        )
        lap = self._laps.take(step, nest)
        points: list[Metrics | Lap] = [] if lap is None else [lap]
        point = Metrics(step, values)
        if values and point != self._told and self._curve.is_due(now):  # also if nothing changed: it is flat
            self._told = point
            points.append(point)
        return live, points


async def watch(training: Training, account: Account, points: Points, followers: Followers) -> None:
    """Note how it is, for as long as its cell runs."""
    vitals = Vitals(account.output.log, points, _live=account.record.live.carried())
    last, said = (0, 0), False
    forecast = Forecast()
    while True:
        await anyio.sleep(EVERY)
        if training.meter is None or not training.life.runs:
            continue
        try:
            last = _mark(training, account, vitals, last, followed=followers.count > 0)
            _foresee(training, forecast, account.record.live.progress)
        except OSError:  # the cell has all descriptors in use, say: it trains on, and the next look may do
            if not said:
                traceback.print_exc(file=account.output.log)
            said = True


def _mark(
    training: Training, account: Account, vitals: Vitals, last: tuple[int, int], *, followed: bool
) -> tuple[int, int]:
    meter = training.meter
    assert meter is not None
    steps = training.steps
    training.pace.take(time.monotonic(), steps.step, moved().moved)
    foreseen = training.handover.foreseen
    host, link = moved().taken, _rounded(training.pace.link)
    memory = Memory(used=meter.used(), peak=meter.peak(), estimate=foreseen, host=host, link=link)
    iterations = steps.iterations if steps.by_loops else None
    live, points = vitals.look(steps.step, training.pace, memory, iterations, lambda: steps.step)
    if iterations is not None and live.progress is not None:
        steps.reached(live.progress.step)
    now = steps.step, memory.used
    for event in points:
        account.output.put(event)
    if now != last:
        account.output.put(ProgressMark(*now, memory.peak, training.pace.words(), host))
    account.far(now[0], replace(live, followed=followed))
    return now


async def watch_device(training: Training, account: Account) -> None:
    """Note what the driver says of its GPU, for as long as its cell runs: nobody else keeps it longer than a minute."""
    while True:
        await anyio.sleep(SELDOM)
        if training.meter is None or not training.life.runs or training.granted.devices[0].kind != "gpu":
            continue  # of an instance, and of a slot, the driver does not tell
        try:
            busy, power = await aside(partial(read_load, training.granted.devices[0].uuid))
        except DeviceError:
            continue  # which is said where it matters
        if training.life.runs and (busy, power) != (None, None):
            with suppress(OSError):
                account.output.put(DeviceMark(busy, power))


def _foresee(training: Training, forecast: Forecast, progress: Progress | None) -> None:
    """Tell those who wait when this one expects to end; where its loops do not know, nothing."""
    now, training.left = time.time(), progress.left if progress is not None else None
    if progress is None or progress.left is None:
        if progress is None or progress.total != progress.step:  # else it is about to end, as was foreseen
            forecast.forget()
            training.granted.expect(None, now)
        return
    if (end := forecast.take(now, progress.left)) is not None:
        training.granted.expect(end, now)


def mark_last(training: Training, account: Account) -> None:
    """How far it came, and what it took in the end."""
    if (meter := training.meter) is None or training.silent:
        return
    training.steps.finish()
    step, used = training.steps.step, meter.used()
    foreseen = training.handover.foreseen
    memory = Memory(used=used, peak=max(used, meter.peak()), estimate=foreseen, host=moved().taken)
    live = account.record.live
    values = told(training.last, live.metrics)
    loss = loss_among(values, live.loss.name if live.loss is not None else "") or live.loss
    metrics = (*live.metrics, *(name for name in values if name not in live.metrics))
    with suppress(OSError):
        if values:
            account.output.put(Metrics(step, {name: finite(value) for name, value in values.items()}))
        account.output.put(ProgressMark(step, used, memory.peak, host=memory.host))
        progress = live.progress and replace(live.progress, step=step)
        account.far(step, replace(live, progress=progress, loss=loss, metrics=metrics, memory=memory))


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
