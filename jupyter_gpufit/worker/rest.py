"""A released training that stays, suspended by the driver: on the host, off its device, until somebody resumes it.

The main thread stands at its safe point, the control thread goes on answering: whoever would have it go on, or end.
The job's lock is given up, so that for everybody else this is a released job like any other: whoever takes it over,
from here or from another machine, finds nothing in the way, and this process ends once it sees that. Not covered: a
training with processes of its own.
"""

from __future__ import annotations

import gc
import os
import time
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import psutil

from ..errors import CannotSuspend, GpufitError
from ..jobs.epoch import current_epoch
from ..jobs.handover import note_start, noted_start
from ..jobs.protocol import Answer, Waking
from ..jobs.record import lock
from ..jobs.state import in_words
from ..lab import Granted
from ..snapshot.libraries import trackers
from ..suspend.decide import KEPT_FREE, LeftAsleep, is_elsewhere, way_back, why_not
from ..suspend.driver import Driver
from ..suspend.waking import GoOn, of_a_worker
from ..system.memory import free_memory
from ..units import format_bytes, format_duration
from .account import Account
from .lifecycle import Asked
from .on_device import for_torch
from .training import Training

LONGEST = 3600.0  # seconds for which a suspended process is kept
LOOK_EVERY = 1.0  # seconds between two looks at whether it still should be
VANISHING = 30.0  # seconds in which the driver is expected to show that the device is left


@dataclass
class Rest:
    """One stay off the device."""

    left: LeftAsleep
    collects: bool  # garbage, while it runs
    _driver: Driver | None = None
    _stirred: anyio.Event = field(default_factory=anyio.Event)

    def stir(self, training: Training) -> None:
        """Have what was decided done, once it was answered."""
        if training.life.phase != "resting":
            self._stirred.set()

    async def until_woken(self, training: Training) -> bool:
        """Wait; False where the process shall end."""
        self._close()  # of a stay that was broken off in the queue
        self._stirred = anyio.Event()
        until = time.monotonic() + LONGEST
        while not self._stirred.is_set():
            with anyio.move_on_after(LOOK_EVERY):
                await self._stirred.wait()
            if training.life.phase == "resting" and (time.monotonic() > until or is_in_the_way(training)):
                training.take(Asked("dismiss"))
                return False
        return not training.life.has_ended

    def prepare(self, training: Training) -> None:
        """Start what asks the driver, which takes seconds, while the job queues."""
        self._driver = _driver(training)

    async def end(self, training: Training, granted: Granted) -> str:
        """Back onto a device that is held; how it went. Raises CannotSuspend: the process is then good for nothing."""
        began = time.monotonic()
        try:
            await self._restore(training, granted)
        except (RuntimeError, OSError, GpufitError) as error:  # torch's, of a device that does not answer; NVML's
            raise error if isinstance(error, CannotSuspend) else CannotSuspend(str(error).rstrip(".")) from error
        finally:
            self._close()
        training.silent = False
        if self.collects:
            gc.enable()
        return f"{training.name} was suspended, and the driver brought it back in {time.monotonic() - began:.1f} s."

    async def _restore(self, training: Training, granted: Granted) -> None:
        device, me = granted.devices[0], os.getpid()
        back = way_back(self.left, device, for_torch(granted, self.left.context), await training.look())
        if back.why_not:
            raise CannotSuspend(back.why_not)
        driver = self._driver = self._driver or _driver(training)
        await driver.probe()
        await driver.restore(me, back.to)
        if why := is_elsewhere(me, device, await training.look(), moved=bool(back.to)):
            raise CannotSuspend(why)
        await driver.unlock(me)
        assert training.meter is not None
        await anyio.to_thread.run_sync(training.meter.go_on, granted)

    def _close(self) -> None:
        if self._driver is not None:
            self._driver.close()
            self._driver = None


def answer(training: Training, rest: Rest | None, account: Account, fd: int, verb: Waking, to: str) -> Answer:
    """Go on (resume) or end (dismiss); `fd`: of the job's lock, which a resting worker does not hold."""
    if rest is None or training.life.phase != "resting":
        return Answer(False, f"it {in_words(account.record.state)}. To follow it: %gpufit attach {training.name}")
    if verb == "dismiss":
        training.take(Asked("dismiss"))
        return Answer(True)
    try:
        why = _begin_again(training, account, fd, GoOn.from_json(to))
        if not why:
            rest.prepare(training)
    except (GpufitError, OSError, ValueError) as error:
        why = str(error)
    training.take(Asked("dismiss" if why else "resume"))
    return Answer(False, why, {"ends": True}) if why else Answer(True)


def _begin_again(training: Training, account: Account, fd: int, wanted: GoOn) -> str:
    """Take the job up once more, as its next epoch; or why this process cannot."""
    mine = of_a_worker(training.settings)
    if others := [name for name, value in wanted.settings.items() if value != mine.get(name)]:
        return f"other settings hold here ({', '.join(others)})"
    lock(fd, training.name)
    if current_epoch(training.paths) != account.record.epoch:
        return "another worker has gone on with it since"
    told: dict[str, Any] = {"needed": wanted.needed, "why": wanted.why, "outgrew": wanted.outgrew}
    note_start(training.paths, replace(noted_start(training.paths), **told))
    account.begin_again()
    training.epoch = account.record.epoch
    told |= {"gpu": wanted.gpu, "resumes": True, "repeats": False, "claim": None, "left": None}
    training.handover = replace(training.handover, **told)  # it queues again, as any resumed job
    return ""


async def say_if_it_cannot(training: Training) -> None:
    """As the cell begins: whoever counts on it shall not learn it at the release."""
    driver = _driver(training)
    try:
        await driver.probe()
    except CannotSuspend as error:
        why = f"driver_suspend is set and cannot be done here: {error.why}. Releases end the process."
        training.note(why, once=True)  # `gpufit doctor` says it whenever it is asked, and so does each release
    finally:
        driver.close()


async def begin_rest(training: Training) -> Rest | None:
    """Suspend the training, which is saved and stands still; None where that cannot be, which is said."""
    driver: Driver | None = None
    collects = gc.isenabled()
    try:
        left = _left(training)
        if why := why_not(
            left,
            devices=len(training.granted.devices),
            children=len(psutil.Process().children(recursive=True)),
            trackers=len(trackers.live()),
            free=free_memory(),
        ):
            raise CannotSuspend(why)
        driver = _driver(training)
        await driver.probe()
        training.note(
            f"{training.name} leaves its device and stays in the host's memory, with {format_bytes(left.bytes)}, for"
            f" {format_duration(LONGEST)} at most: a resume goes on from there, or else from the checkpoint.",
        )
        # From here on each call of CUDA waits, and would hold up this thread, too: a collection could free a tensor.
        gc.disable()
        training.silent = True
        await driver.suspend(os.getpid())
        await _until_off(training, left)
        return Rest(left, collects)
    except (GpufitError, OSError) as error:  # the job is saved: its process ends, as it would without all this
        why = error.why if isinstance(error, CannotSuspend) else str(error).rstrip(".")
        training.note(f"{training.name} does not stay in the host's memory: {why}. A resume goes on from the disk.")
        return None
    finally:
        if driver is not None:
            driver.close()


def _left(training: Training) -> LeftAsleep:
    assert training.meter is not None
    return LeftAsleep(training.granted.devices[0], training.meter.used(), training.context())


async def _until_off(training: Training, left: LeftAsleep) -> None:
    """The claim is given back when the driver itself shows that nothing of this process is there any more."""
    with anyio.move_on_after(VANISHING):
        while any(  # noqa: ASYNC110 - the driver makes no event of it
            process.pid == os.getpid()
            for device in await training.look()
            for process in device.processes
            if device.uuid == left.device.uuid
        ):
            await anyio.sleep(0.1)
        return
    raise CannotSuspend("the driver still shows it on its device")


def is_in_the_way(training: Training) -> bool:
    """Whether somebody else has the job, its files are gone, or the host's memory is needed."""
    try:
        taken_over = current_epoch(training.paths) != training.epoch  # no epoch at all: cleaned
    except OSError:
        return False  # to be read again
    return taken_over or free_memory() < KEPT_FREE // 2


def _driver(training: Training) -> Driver:
    return Driver(training.process_env, training.output.log)
