"""The estimate as a step of a job: made in the worker before it queues. What the run then tells of it: lesson.py.

A job must never fail because its estimate did, nor wait for one that could tell nothing: then it claims a whole device.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeAlias

from ...devices.cards import sheet_of
from ...devices.device import Device, Kind
from ...devices.speeds import keep_speed, kept_speed
from ...errors import GpufitError
from ...fit.plan import AS_IT_IS, FitLimits, Plan
from ...graph.memory import GraphMemory
from ...graph.wire import split
from ...jobs.job import Job, Options
from ...lab import Request, open_lab
from ...lab.place import Space, candidates
from ...lab.soonest import host_ahead, prospect
from ...settings import Settings
from ...units import MiB, format_bytes
from ..need import Needed
from ..reckoning.for_resume import SLOT_LEAST
from ..reckoning.learned import corrected, lessons, lessons_of, ran_out_under
from ..reckoning.on_slot import on_slot
from ..reckoning.pace import Pace
from ..reckoning.report import NO_GPU, Estimate
from ..reckoning.verdict import usable_alone
from ..showing.text import band
from . import before
from .ask import Ask, TraceAnswer
from .climb import RAN_OUT, Tell, untold
from .fit import Fit, fit_of, limits_of
from .look import look, main_module, opened_privately
from .several import each_of
from .sooner import TwoWays
from .target import EstimateTarget, largest_of, target_of
from .timed import factor_of, known_better, known_to_fit, times_of
from .worth import may_start_programs, may_train, names_a_gpu

NO_GPU_ROOM = 256 * MiB  # for a cell that uses none as far as a trial run can tell, beside the context
WHOLE = "asks for a whole device"
ONE = (1, 1)  # device


@dataclass(frozen=True)
class Estimated:
    """What was found out, and for what."""

    estimate: Estimate
    kind: Kind
    key: str  # of the cell with its inputs, see learned.py
    fit: Fit = Fit()
    again: bool = False  # it was found out for an earlier run of the same cell
    on: tuple[Device, ...] = ()  # of all devices those that it is for: elsewhere its turn would come later
    each: str = ""  # what each of several devices needs, in words
    best: int = 0  # of several, the number on which it is predicted to end first; 0: nobody looked


@dataclass(frozen=True)
class Asker:
    """Who waits for an estimate."""

    stop: int | None = None  # descriptor: once it can be read, nobody does any more
    tell: Tell = untold  # what takes long


@dataclass(frozen=True)
class Cell:
    """A job's cell as it came to the worker."""

    source: str  # after IPython's transformer
    graph: bytes
    memory: GraphMemory  # the variables' tensor bytes

    @property
    def may_train(self) -> bool:
        """By its text; only where that tells nothing, by what it is given."""
        by_text = may_train(self.source)
        return bool(split(self.graph)[0].get("may_train", False)) if by_text is None else by_text

    def opened(self) -> dict[str, object]:
        """The variables; for a process of its own, which they may change."""
        return opened_privately(self.graph, self.memory, main_module())


Found: TypeAlias = Estimated | str | None  # a text: why there is none; None: there is nothing to estimate


def asked_for(options: Options, settings: Settings) -> Needed | None:
    """What the user has decided, so that nothing need be estimated."""
    if options.exclusive:
        return Needed(None, WHOLE)
    if options.memory is not None:
        return Needed(options.memory, "asks for what --memory says")
    return Needed(None, WHOLE) if settings.estimate_limit <= 0 else None


async def estimate_in(
    call: Callable[[Callable[[], Found]], Awaitable[Found]],
    cell: Cell,
    devices: Sequence[Device],
    settings: Settings,
    gpus: tuple[int, int] = ONE,
    tell: Tell = untold,
) -> Found:
    """Estimate in the thread that `call` leads to, which `tell` is called in; cancelled, it ends there at once."""
    ours, theirs = socket.socketpair()

    def estimate() -> Found:
        with theirs:
            return estimate_job(cell, devices, settings, Asker(theirs.fileno(), tell), gpus)

    with ours:
        try:
            return await call(estimate)
        except BaseException:
            with suppress(OSError):  # the estimate may have ended by itself in this very moment
                ours.send(b"x")  # not closing alone: a forked child has this end, too
            raise


def estimate_job(
    cell: Cell,
    devices: Sequence[Device],
    settings: Settings,
    asker: Asker = Asker(),
    gpus: tuple[int, int] = ONE,
) -> Found:
    """Trace the cell for the device it will probably get, or for each of so many. Forks."""
    try:
        device = largest_of(devices)
        if device.kind == "slot":
            measured(settings, device)  # it is this process's own processor
        target = target_of(settings, device)
        if cell.may_train:
            if gpus[1] > 1:
                return _of_several(cell, target, settings, gpus, devices, asker)
            limits = limits_of(devices) if settings.fit != "no" else None
            found = _estimate(cell, target, settings, limits, asker)
            sooner = _sooner(cell, found, target, devices, settings, asker) if limits is not None else None
            return sooner or found
        none = target.kind == "slot" or may_start_programs(cell.source) or names_a_gpu(cell.source, {})
        return None if none else _nothing(target)
    except Exception as error:  # a defect of ours, or what a user's object does when it is opened
        return f"{type(error).__name__}: {error}"


def measured(settings: Settings, device: Device) -> None:
    """Measure how fast a device of this type is, unless it is known; in a process that computes on it."""
    if kept_speed(settings, device.kind, device.name) is None:
        from ...fit.rungs.speeds import measure_speed  # torch, which is there where something is computed

        speed = measure_speed("cpu" if device.kind == "slot" else "cuda")
        keep_speed(settings, device.kind, device.name, speed)


def allowed_for(job: Job, devices: Sequence[Device]) -> Sequence[Device]:
    """The devices on which the job may run."""
    return candidates(Request(job_id=job.id, name=job.name, gpu=job.options.gpu), devices)


def _estimate(
    cell: Cell, target: EstimateTarget, settings: Settings, limits: FitLimits | None, asker: Asker
) -> Estimated:
    """As the cell is, or under the plan by which it fits."""
    ask = target.ask(settings.estimate_limit, limits=limits, fit=settings.fit)
    answer, again = _answer(cell, ask, settings, asker)
    if limits is not None and (ran_out := ran_out_under(settings, answer.key, target.kind, limits.usable)):
        answer, again = _answer(cell, ask := replace(ask, ran_out=ran_out), settings, asker)
    known = lessons_of(settings, answer.key, target.kind)
    for better_by in (known_to_fit, known_better):
        if (better := better_by(answer, ask, known)) is not None:
            answer, again = _answer(cell, ask := better, settings, asker)
    fit = fit_of(answer)
    spare = host_ahead(settings) if fit.plan.host else 0
    if limits is not None and fit.plan.host > spare:  # what is free now is no part of the question
        answer, again = _look(cell, replace(ask, limits=replace(limits, host=spare)), asker), False
        fit = fit_of(answer)
    plain = on_slot(answer.estimate) if target.kind == "slot" else answer.estimate
    estimate = plain if answer.planned is None else answer.planned
    if target.kind == "slot" and answer.planned is not None:
        estimate = on_slot(estimate)
    if settings.fit in ("exact", "any") and (answer.climbed is None or answer.climbed.steps[0].why != RAN_OUT):
        fit = replace(fit, plain=plain.need or 0)
    estimate = corrected(estimate, target.kind, lessons(settings, answer.key, fit.plan.words))
    return Estimated(estimate, target.kind, answer.key, fit, again)


def _of_several(
    cell: Cell,
    target: EstimateTarget,
    settings: Settings,
    gpus: tuple[int, int],
    devices: Sequence[Device],
    asker: Asker,
) -> Estimated:
    """What runs on one device took tells nothing of it."""
    limits = limits_of(devices) if settings.fit != "no" else None
    ask = target.ask(settings.estimate_limit, fit="no")
    each = each_of(ask, gpus, len(devices), limits, settings, lambda one: _answer(cell, one, settings, asker))
    fit = replace(fit_of(each.answer), devices=each.sharing.devices, split=each.sharing.split)
    return Estimated(each.estimate, target.kind, each.answer.key, fit, each.again, each=each.words, best=each.best)


def _sooner(
    cell: Cell,
    found: Estimated,
    target: EstimateTarget,
    devices: Sequence[Device],
    settings: Settings,
    asker: Asker,
) -> Estimated | None:
    """By a plan on what is free now, where it fits as it is, but only later, and would be done later."""
    needed = needed_of(found, devices).memory
    if found.fit.plan.parts or found.fit.why or not found.estimate.seconds_per_step:
        return None
    request = Request(job_id="", name="", needed=needed)
    try:
        ahead = prospect(open_lab(settings), devices, request)
    except (OSError, GpufitError):  # which is said where it queues
        return None
    if ahead is None or ahead.later.latest is None:
        return None
    known = lessons_of(settings, found.key, target.kind)
    steps = next((one.steps for one in reversed(known) if one.steps and not one.ran_out), found.estimate.steps_in_all)
    if not steps:
        return None
    device = ahead.free.device
    alone = usable_alone(ahead.free.space) if not ahead.free.taken else ahead.free.free
    by_plan = _estimate(cell, target_of(settings, device), settings, FitLimits(ahead.free.free, alone), asker)
    plain = times_of(known).get(AS_IT_IS, found.estimate.seconds_per_step * factor_of(known))
    ways = TwoWays(steps, plain, by_plan.fit.plan, time.time(), ahead.later.latest, device.label, ahead.where)
    if not by_plan.fit.plan.parts:
        return None
    if not ways.begins_now:
        return replace(found, fit=replace(found.fit, why=ways.words))
    return replace(by_plan, fit=replace(by_plan.fit, why=ways.words), on=(device,))


def _answer(cell: Cell, ask: Ask, settings: Settings, asker: Asker) -> tuple[TraceAnswer, bool]:
    """What a look finds, and whether it was found for an earlier run of the same cell."""
    given = before.key_of(cell.source, cell.graph, ask)
    known = before.find(settings, given)
    if known is not None:
        return known, True
    answer = _look(cell, ask, asker)
    before.keep(settings, given, answer)
    return answer, False


def _look(cell: Cell, ask: Ask, asker: Asker) -> TraceAnswer:
    return look(cell.source, cell.opened, ask, asker.stop, tell=asker.tell)


def _nothing(target: EstimateTarget) -> Estimated:
    """For a cell that was not traced, since nothing in it could use a GPU."""
    context, card = target.context.bytes, target.card
    none = Estimate(
        card=card.name,
        card_total=card.total,
        how="nothing",
        context=context,
        low=context,
        reasons=(NO_GPU,),
        needs_none=True,
    )
    return Estimated(none, target.kind, "")


def needed_of(found: Found, devices: Sequence[Device], *, names_device: bool = False) -> Needed:
    """What to claim, under which plan, and why; pure."""
    chosen = found.on if isinstance(found, Estimated) and found.on else devices
    needed = _claim_of(found, chosen, names_device)
    if isinstance(found, Estimated) and (why := found.fit.why or found.each):
        return replace(needed, reason=f"{why}; {needed.reason}")
    return needed


def _claim_of(found: Found, devices: Sequence[Device], names_device: bool) -> Needed:
    """The upper end of the band, since the claim is a limit, too."""
    if found is None:
        return Needed(None, WHOLE)
    if isinstance(found, str):
        return Needed(None, f"estimate: none ({found}); claims a whole device")
    estimate = found.estimate
    if estimate.needs_none and found.kind != "slot" and not names_device:
        return Needed(0, NO_GPU)
    if estimate.uses_no_gpu:
        if found.kind == "slot":  # where it is all memory, a budget of next to nothing would end it
            return Needed(None, f"{NO_GPU}; claims a whole slot")
        claimed = estimate.context + NO_GPU_ROOM
        return Needed(claimed, f"{NO_GPU}; it claims {format_bytes(claimed)}, in case it does")
    if estimate.high is None:
        return Needed(None, f"estimate: {_least(estimate)} ({estimate.reasons[0]}); claims a whole device")
    said = f"estimate: {band(estimate)}, {estimate.confidence} confidence{', as before' if found.again else ''}"
    if estimate.confidence == "low":
        return Needed(None, f"{said} ({estimate.reasons[0]}); claims a whole device")
    spaces = [Space(device) for device in devices if not device.problem]
    if estimate.low > max(map(usable_alone, spaces), default=0):
        return Needed(None, f"{said}; more than any device here has: expect it to run out of memory on a whole one")
    claimed = max(estimate.high, SLOT_LEAST) if found.kind == "slot" else estimate.high
    if claimed > max((space.usable for space in spaces), default=0):
        return Needed(None, f"{said}; tight, so it claims a whole device")
    least = ", the least on a slot" if claimed > estimate.high else ""
    return Needed(claimed, f"{said}; claims {format_bytes(claimed)}{least}")


def _least(estimate: Estimate) -> str:
    return f"at least {format_bytes(estimate.low)}" if estimate.closed_form else "none"


def pace_of(found: Found, device: Device, plan: Plan) -> Pace:
    """What is known of a job's speed before it runs; on a CPU slot there is no rate to compare it with."""
    if not isinstance(found, Estimated):
        return Pace()
    foreseen = plan.seconds if plan.parts else found.estimate.seconds_per_step
    rates = {} if device.kind == "slot" else sheet_of(device).rates
    return Pace(found.estimate.flops_per_step, rates, foreseen)
