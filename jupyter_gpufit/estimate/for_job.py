"""The estimate as a step of a job: made in the worker before it queues, and put right by what the run then took.

A job must never fail because its estimate did: then it claims a whole device, and says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from ..claims.record import Request
from ..devices import Device, Kind
from ..graph.memory import Memory
from ..job import Job, Options
from ..place import Space, candidates
from ..settings import Settings
from ..train import Needed
from ..units import MiB, format_bytes
from .ask import Ask
from .cards import remember_context, sheet_of
from .learned import Lesson, corrected, learn, lessons, signature
from .look import look, main_module, opened_privately
from .pace import Pace
from .report import Estimate
from .target import Target, largest_of, target_of
from .text import band

# A CPU's kernels take more than a GPU's: blocked copies for oneDNN, attention's scores.
SLOT_MARGIN = 0.5
TRACER_OWN = 128 * MiB  # a traced child grows by so much without any host tensors of the cell's


@dataclass(frozen=True)
class Estimated:
    """What was found out, and for what."""

    estimate: Estimate
    kind: Kind
    key: str  # of the cell with its inputs, see learned.py


def asked_for(options: Options) -> Needed | None:
    """What the user has decided, so that nothing need be estimated."""
    if options.exclusive:
        return Needed(None, "asks for a whole device")
    if options.memory is not None:
        return Needed(options.memory, "asks for what --memory says")
    return None


def estimate_job(
    job: Job, source: str, graph: bytes, memory: Memory, devices: Sequence[Device], settings: Settings
) -> Estimated | str:
    """Trace the job's cell for the device it will probably get; else why there is no estimate. Forks."""
    try:
        allowed = candidates(Request(job_id=job.id, name=job.name, gpu=job.options.gpu), devices)
        target = target_of(settings, largest_of(allowed))
        return _estimate(source, graph, memory, target, settings)
    except Exception as error:  # a defect of ours, or what a user's object does when it is opened
        return f"{type(error).__name__}: {error}"


def _estimate(source: str, graph: bytes, memory: Memory, target: Target, settings: Settings) -> Estimated:
    ask = Ask(card=target.card, kind=target.kind, context=target.context, limit=settings.estimate_limit)
    answer = look(source, lambda: opened_privately(graph, memory, main_module()), ask)
    estimate = answer.estimate
    if target.kind == "slot":
        estimate = on_slot(estimate)
    estimate = corrected(estimate, target.kind, lessons(settings, answer.key))
    return Estimated(estimate, target.kind, answer.key)


def on_slot(estimate: Estimate) -> Estimate:
    """What a slot must offer: its budget also counts the host's tensors, and CPU kernels take more; pure."""
    if estimate.need is None:
        return estimate
    host = max(0, estimate.host - TRACER_OWN)
    need = round((estimate.peak_allocated + host) * (1 + SLOT_MARGIN)) + estimate.context
    reason = "a CPU slot: host tensors count too, and CPU kernels take more than a GPU's"
    return replace(estimate, need=need, high=need, reasons=(reason, *estimate.reasons))


def needed_of(found: Estimated | str, devices: Sequence[Device]) -> Needed:
    """What to claim; pure."""
    if isinstance(found, str):
        return Needed(None, f"no estimate ({found}), so it claims a whole device")
    estimate = found.estimate
    if estimate.need is None or estimate.confidence == "low":
        return Needed(None, f"no sure estimate ({estimate.reasons[0]}), so it claims a whole device")
    largest = max((Space(device).usable for device in devices if not device.problem), default=0)
    if estimate.need > largest >= estimate.low:
        return Needed(None, f"estimated {band(estimate)}: tight, so it claims a whole device")
    return Needed(estimate.need, f"estimated {band(estimate)}, claims {format_bytes(estimate.need)}")


def pace_of(found: Estimated | str | None, device: Device) -> Pace:
    """What is known of a job's speed before it runs; on a CPU slot there is no rate to compare it with."""
    flops = found.estimate.flops_per_step if isinstance(found, Estimated) else None
    return Pace(flops, {} if device.kind == "slot" else sheet_of(device).rates)


@dataclass(frozen=True)
class Took:
    """What a run really took: bytes at the most."""

    measured: int  # of the process on the device, context included
    allocated: int | None = None
    reserved: int | None = None
    nvml: int | None = None


def key_of(source: str, values: Mapping[str, object]) -> str:
    """The cell's key, to be asked for before it runs; none where a variable refuses to be looked at."""
    try:
        return signature(source, values)
    except Exception:  # of the user's own objects: nothing is learned from this run
        return ""


def learn_from(
    job: Job, key: str, found: Estimated | str | None, device: Device, took: Callable[[], Took], settings: Settings
) -> None:
    """Keep what the run took for the next estimate of the same cell; a run is never failed for that."""
    with suppress(Exception):
        _learn(job, key, found, device, took(), settings)


def _learn(job: Job, key: str, found: Estimated | str | None, device: Device, took: Took, settings: Settings) -> None:
    estimate = found.estimate if isinstance(found, Estimated) else None
    if took.measured <= 0 or not key:
        return
    expected = estimate.expected if estimate is not None and estimate.how == "trace" else 0
    lesson = Lesson(
        key=key,
        time=time.time(),
        kind=device.kind,
        card=device.name,
        job=job.id,
        measured=took.measured,
        estimated=expected,
        allocated=took.allocated,
        reserved=took.reserved,
        nvml=took.nvml,
    )
    learn(settings, lesson)
    if device.kind != "slot" and took.nvml and took.reserved is not None and took.nvml > took.reserved:
        remember_context(settings, device.name, took.nvml - took.reserved)
