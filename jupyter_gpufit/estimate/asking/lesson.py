"""What a job's run tells of its estimate: a word beside its error, and what is kept for the next run of the cell."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from ...devices.cards import remember_context
from ...devices.device import Device
from ...fit.memory import ran_out
from ...fit.plan import AS_IT_IS
from ...fit.sharing import Sharing
from ...jobs.job import Job
from ...lab import Granted
from ...settings import Settings
from ...units import format_bytes
from ..need import Needed
from ..reckoning.learned import Lesson, learn, signature
from .fit import Fit
from .for_job import Estimated, Found


@dataclass(frozen=True)
class Took:
    """What a run really took: bytes at the most."""

    measured: int  # of the process on the device, context included
    allocated: int | None = None
    reserved: int | None = None
    nvml: int | None = None


@dataclass(frozen=True)
class RunCourse:
    """How a run went."""

    steps: int = 0
    step_seconds: float = 0.0  # of one, in the middle; 0: there were too few
    devices: int = 1


def remark_on(error: BaseException, found: Found, needed: Needed) -> str:
    """What an out-of-memory error must say where the limit was only an estimate; empty for any other error."""
    if needed.memory is None or not isinstance(found, Estimated) or not ran_out(error):
        return ""
    more = format_bytes(2 * needed.memory).replace(" ", "")
    return (
        f"This limit, {format_bytes(needed.memory)}, was only estimated, and it was too low. Run the cell with"
        f" --memory {more}, say, or with --exclusive; without either, its next run claims a whole device."
    )


def shared_out(found: Found, fit: Fit, devices: int) -> tuple[Found, Fit]:
    """The same of a run on several devices: what was predicted for another number is not compared with it."""
    known = found if fit.devices == devices else None
    words = f"{Sharing(devices, fit.split).words} on {devices} devices"
    return known, replace(fit, plan=replace(fit.plan, words=words, seconds=0.0))


def remark_on_plan(error: BaseException, fit: Fit) -> str:
    """What an error must say that comes of the plan and not of the cell; empty for any other error."""
    checkpointing = sys.modules.get("torch.utils.checkpoint")
    if checkpointing is None or not isinstance(error, checkpointing.CheckpointError):
        return ""
    return (
        "To save memory a part of the model was computed twice, and the second result differed. Something besides its"
        " inputs changes it. Run the cell with --fit no and a smaller batch, or on a larger device."
    )


def key_of(source: str, values: Mapping[str, object]) -> str:
    """The cell's key, to be asked for before it runs; none where a variable refuses to be looked at."""
    try:
        return signature(source, values)
    except Exception:  # of the user's own objects: nothing is learned from this run
        return ""


def learn_from(
    job: Job,
    key: str,
    found: Found,
    granted: Granted,
    left: BaseException | None,
    took: Callable[[], Took],
    settings: Settings,
    fit: Fit | None = None,
    course: RunCourse = RunCourse(),
) -> None:
    """Keep what the run took for the next estimate of the same cell; a run is never failed for that.

    What was interrupted or failed need not have come to its peak; that what it had was too little is known then.
    """
    too_little = (fit is not None or isinstance(found, Estimated)) and ran_out(left)
    if left is None or too_little:
        with suppress(Exception):
            had = granted.bytes if too_little else 0
            if not key and fit is not None and too_little:
                key = fit.key  # it went on from a checkpoint, and this holds from wherever it began
            _learn(job, key, found, fit, granted.devices[0], took(), settings, had, course)


def _learn(
    job: Job,
    key: str,
    found: Found,
    fit: Fit | None,
    device: Device,
    took: Took,
    settings: Settings,
    had: int,
    course: RunCourse,
) -> None:
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
        ran_out=had > 0,
        plan=fit.plan.words if fit else AS_IT_IS,
        had=had,
        name=job.name,
        steps=course.steps,
        step_seconds=course.step_seconds,
        predicted_seconds=(fit.plan.seconds if fit else 0.0) or (estimate.seconds_per_step if estimate else 0.0),
        host=fit.plan.host if fit else 0,
        devices=course.devices,
    )
    learn(settings, lesson)
    if device.kind != "slot" and took.nvml and took.reserved is not None and took.nvml > took.reserved:
        remember_context(settings, device.name, took.nvml - took.reserved)
