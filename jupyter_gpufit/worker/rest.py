"""A released training that stays, suspended by the driver: on the host, off its device, until somebody resumes it.

The main thread stands at its safe point, the control thread goes on answering. The job's lock is given up, so that for
everybody else this is a released job like any other: whoever takes it over, from here or from another machine, finds
nothing in the way, and this process ends once it sees that. Not covered: a training with processes of its own.
"""

from __future__ import annotations

import gc
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
import psutil

from ..checkpoint.staging import free_memory
from ..devices.cards import context_of
from ..errors import CannotSuspend, GpufitError
from ..jobs.epoch import current_epoch
from ..jobs.events import Note
from ..lab import Granted
from ..snapshot.libraries import trackers
from ..suspend.decide import KEPT_FREE, LeftAsleep, is_elsewhere, way_back, why_not
from ..suspend.driver import Driver
from ..units import format_bytes, format_duration
from .on_device import for_torch

if TYPE_CHECKING:
    from .machine import WorkerMachine

LONGEST = 3600.0  # seconds for which a suspended process is kept
LOOK_EVERY = 1.0  # seconds between two looks at whether it still should be
VANISHING = 30.0  # seconds in which the driver is expected to show that the device is left


@dataclass
class Rest:
    """One stay off the device."""

    left: LeftAsleep
    collects: bool  # garbage, while it runs
    woken: bool = False
    dismissed: bool = False
    _driver: Driver | None = None
    _stirred: anyio.Event = field(default_factory=anyio.Event)

    def stir(self) -> None:
        """Have what was decided done, once it was answered."""
        if self.woken or self.dismissed:
            self._stirred.set()

    async def until_woken(self, machine: WorkerMachine) -> bool:
        """Wait; False where the process shall end."""
        self._close()  # of a stay that was broken off in the queue
        self.woken, self._stirred = False, anyio.Event()
        until = time.monotonic() + LONGEST
        while not self._stirred.is_set():
            with anyio.move_on_after(LOOK_EVERY):
                await self._stirred.wait()
            if not self._stirred.is_set() and (time.monotonic() > until or is_in_the_way(machine)):
                return False
        return self.woken

    def prepare(self, machine: WorkerMachine) -> None:
        """Start what asks the driver, which takes seconds, while the job queues."""
        self._driver = _driver(machine)

    async def end(self, machine: WorkerMachine, granted: Granted) -> str:
        """Back onto a device that is held; how it went. Raises CannotSuspend: the process is then good for nothing."""
        began = time.monotonic()
        try:
            await self._restore(machine, granted)
        except (RuntimeError, OSError, GpufitError) as error:  # torch's, of a device that does not answer; NVML's
            raise error if isinstance(error, CannotSuspend) else CannotSuspend(str(error).rstrip(".")) from error
        finally:
            self._close()
        machine.silent = False
        if self.collects:
            gc.enable()
        return f"{machine.name} was suspended, and the driver brought it back in {time.monotonic() - began:.1f} s."

    async def _restore(self, machine: WorkerMachine, granted: Granted) -> None:
        device, me = granted.devices[0], os.getpid()
        back = way_back(self.left, device, for_torch(granted, self.left.context), await machine.look())
        if back.why_not:
            raise CannotSuspend(back.why_not)
        driver = self._driver = self._driver or _driver(machine)
        await driver.probe()
        await driver.restore(me, back.to)
        if why := is_elsewhere(me, device, await machine.look(), moved=bool(back.to)):
            raise CannotSuspend(why)
        await driver.unlock(me)
        assert machine.meter is not None
        await anyio.to_thread.run_sync(machine.meter.go_on, granted)

    def _close(self) -> None:
        if self._driver is not None:
            self._driver.close()
            self._driver = None


async def say_if_it_cannot(machine: WorkerMachine) -> None:
    """As the cell begins: whoever counts on it shall not learn it at the release."""
    driver = _driver(machine)
    try:
        await driver.probe()
    except CannotSuspend as error:
        why = f"driver_suspend is set and cannot be done here: {error.why}. Releases end the process."
        machine.output.put(Note(why, once=True))
    finally:
        driver.close()


async def begin_rest(machine: WorkerMachine) -> Rest | None:
    """Suspend the training, which is saved and stands still; None where that cannot be, which is said."""
    driver: Driver | None = None
    collects = gc.isenabled()
    try:
        left = _left(machine)
        if why := why_not(
            left,
            devices=len(machine.granted.devices),
            children=len(psutil.Process().children(recursive=True)),
            trackers=len(trackers.live()),
            free=free_memory(),
        ):
            raise CannotSuspend(why)
        driver = _driver(machine)
        await driver.probe()
        _say(
            machine,
            f"{machine.name} leaves its device and stays in the host's memory, with {format_bytes(left.bytes)}, for"
            f" {format_duration(LONGEST)} at the most: a resume goes on from there, or else from the checkpoint.",
        )
        # From here on each call of CUDA waits, and would hold up this thread, too: a collection could free a tensor.
        gc.disable()
        machine.silent = True
        await driver.suspend(os.getpid())
        await _until_off(machine, left)
        return Rest(left, collects)
    except (GpufitError, OSError) as error:  # the job is saved: its process ends, as it would without all this
        why = error.why if isinstance(error, CannotSuspend) else str(error).rstrip(".")
        _say(machine, f"{machine.name} does not stay in the host's memory: {why}. A resume goes on from the disk.")
        return None
    finally:
        if driver is not None:
            driver.close()


def _left(machine: WorkerMachine) -> LeftAsleep:
    device = machine.granted.devices[0]
    # A slot's figure is of the whole process, a GPU's of torch's memory alone.
    context = 0 if device.kind == "slot" else context_of(machine.settings, device.kind, device.name).bytes
    assert machine.meter is not None
    return LeftAsleep(device, machine.meter.used(), context)


async def _until_off(machine: WorkerMachine, left: LeftAsleep) -> None:
    """The claim is given back when the driver itself shows that nothing of this process is there any more."""
    with anyio.move_on_after(VANISHING):
        while any(  # noqa: ASYNC110 - the driver makes no event of it
            process.pid == os.getpid()
            for device in await machine.look()
            for process in device.processes
            if device.uuid == left.device.uuid
        ):
            await anyio.sleep(0.1)
        return
    raise CannotSuspend("the driver still shows it on its device")


def is_in_the_way(machine: WorkerMachine) -> bool:
    """Whether somebody else has the job, its files are gone, or the host's memory is needed."""
    try:
        taken_over = current_epoch(machine.paths) != machine.epoch  # no epoch at all: cleaned
    except OSError:
        return False  # to be read again
    return taken_over or free_memory() < KEPT_FREE // 2


def _driver(machine: WorkerMachine) -> Driver:
    return Driver(machine.process_env, machine.output.log)


def _say(machine: WorkerMachine, text: str) -> None:
    machine.output.put(Note(text))
