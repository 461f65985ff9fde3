"""One reading at a time for all who look, in a thread; and none while nobody does.

A failure to read is an answer too: its sentence stands under `problem`, where the panel shows it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol

from ..actions.status import Status
from ..errors import GpufitError
from ..system.background import aside
from ..system.host import Host, read_host
from ..system.version import version
from . import wire
from .encode import to_json

log = logging.getLogger(__name__)

EVERY = 1.0  # seconds between two readings while somebody looks, and for which one serves every request
SOON = 0.1  # seconds between two readings at the least, when something is known to have happened
AT_LEAST = 10.0  # seconds after which a status is sent although nothing has changed
PATIENCE = 5.0  # seconds a client waits for a reading
SAMPLES = 60  # of a device, kept while somebody looks
UNSEEN = 60.0  # seconds between two looks from which on nothing is said of what a device did between them


class Readings:
    """The latest reading: a driver that hangs costs one thread, not one per request."""

    def __init__(self, read: Callable[[], Status], *, fresh: float = EVERY, patience: float = PATIENCE) -> None:
        self._read = read
        self._fresh = fresh
        self._patience = patience
        self._reading: asyncio.Task[Status] | None = None
        self._began = self._ended = 0.0  # time.monotonic() when it began and ended
        self._expired = float("-inf")  # what began before says nothing of now
        self._history: dict[str, deque[wire.Sample]] = {}
        self._idle: dict[str, float] = {}
        self._looked = float("-inf")  # the time of the last look
        self._host: Host | None = None

    async def latest(self, fresh: float | None = None) -> Status:
        """A reading that is fresh enough, or else the reason why there is none."""
        fresh = self._fresh if fresh is None else fresh
        if self._reading is None or (self._reading.done() and self._is_old(fresh)):
            self._reading = asyncio.create_task(self._read_in_thread())
        with suppress(TimeoutError):  # a reading's own has become an answer
            async with asyncio.timeout(self._patience):
                return await asyncio.shield(self._reading)
        return _nothing(
            f"The devices have not answered for {self._patience:.0f} s. If this stays so, `nvidia-smi` in a terminal"
            " tells whether the NVIDIA driver hangs."
        )

    def told(self, reading: Status, under_way: wire.UnderWay, since: float = 0.0) -> wire.WireStatus:
        """The reading, with what is known from those before it; of the devices' histories what is newer than that."""
        return wire.status_of(reading, self._history, version(), under_way, self._idle, self._host, since)

    def expire(self) -> None:
        """Something has happened: what is read from now on is news."""
        self._expired = time.monotonic()

    def _is_old(self, fresh: float) -> bool:
        return self._began <= self._expired or time.monotonic() - self._ended > fresh

    @property
    def history(self) -> Mapping[str, deque[wire.Sample]]:
        """What the devices did in the last readings, by UUID."""
        return self._history

    @property
    def idle(self) -> Mapping[str, float]:
        """Since when a device computed nothing at every look, although somebody held it; by UUID."""
        return self._idle

    async def _read_in_thread(self) -> Status:
        self._began = time.monotonic()
        try:
            status, self._host = await aside(lambda: (self._read(), read_host()))
        except GpufitError as error:
            return _nothing(str(error))
        except Exception as error:  # this is a front: whatever happens, the panel says so
            log.exception("The status could not be read")
            return _nothing(f"The status could not be read ({error!r}). The log of the Jupyter server says more.")
        finally:
            self._ended = time.monotonic()
        self._note(status)
        return status

    def _note(self, status: Status) -> None:
        there = {device.uuid: device for device in status.devices}
        self._history = {uuid: self._history.get(uuid) or deque(maxlen=SAMPLES) for uuid in there}
        now = sampled(status.time)
        for (uuid, device), room in zip(there.items(), status.rooms, strict=False):
            # A slot has no driver that would tell what is used: what is claimed counts.
            used = device.total - room.free if device.kind == "slot" else device.used
            self._history[uuid].append((now, device.utilisation, used))
        before = self._idle if status.time - self._looked < UNSEEN else {}
        held = {label for claim in status.claims for label in claim.devices}
        self._idle = {
            uuid: before.get(uuid, status.time)
            for uuid, device in there.items()
            if device.utilisation == 0 and (device.label in held or device.processes)
        }
        self._looked = status.time


def sampled(time: float) -> float:
    """The time of a reading as its samples have it."""
    return round(time, 1)


def _nothing(problem: str) -> Status:
    return Status((), (), problem, time.time())


class Looker(Protocol):
    """Somebody who looks; it must take what it is given without waiting."""

    def take(self, status: wire.WireStatus, message: str | None) -> None:
        """There is a reading; `message` is its JSON, or None when nothing has changed."""


class ReadingWatch:
    """Reads for those who look, and tells them what has changed."""

    def __init__(self, readings: Readings, under_way: Callable[[], wire.UnderWay] = dict) -> None:
        self._readings = readings
        self._under_way = under_way
        self._lookers: set[Looker] = set()
        self._loop: asyncio.Task[None] | None = None
        self._nudged = asyncio.Event()
        self._told: wire.WireStatus | None = None
        self._message = ""

    def join(self, looker: Looker) -> None:
        """Tell this one from now on; a reading that is fresh reaches it at once."""
        self._lookers.add(looker)
        self._told = None
        self.nudge()
        if self._loop is None or self._loop.done():
            self._loop = asyncio.create_task(self._look())

    def leave(self, looker: Looker) -> None:
        """The last one to leave ends the reading."""
        self._lookers.discard(looker)
        self.nudge()

    def nudge(self) -> None:
        """Something has happened: read soon."""
        self._nudged.set()

    def nudge_again_and_again(self) -> None:
        """Something was asked for, whose effect is about to show."""
        for delay in (0.0, 0.15, 0.35, 0.6):
            asyncio.get_running_loop().call_later(delay, self.nudge)

    @property
    def resting(self) -> asyncio.Task[None] | None:
        """What ends when nobody looks any more."""
        return self._loop

    async def _look(self) -> None:
        while self._lookers:
            self._nudged.clear()
            began = time.monotonic()
            # Before the reading: what ends meanwhile must not look as if it had never been asked for.
            under_way = self._under_way()
            reading = await self._readings.latest(fresh=SOON)
            # Most of a message would be what the devices did in the minute before, which those who look have already.
            since = sampled(self._told.time) if self._told is not None else 0.0
            status = self._readings.told(reading, under_way, since)
            message = self._news(status, since)
            for looker in list(self._lookers):
                looker.take(status, message)
            await self._rest(began)

    def _news(self, status: wire.WireStatus, since: float) -> str | None:
        told = self._told
        if told is not None and status.time - told.time < AT_LEAST and _content(status) == _content(told):
            return None
        self._told = status
        return to_json(wire.StatusMessage(status=status, since=since))

    async def _rest(self, began: float) -> None:
        await asyncio.sleep(SOON)
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, began + EVERY - time.monotonic())):
                await self._nudged.wait()


def _content(status: wire.WireStatus) -> tuple[object, ...]:
    """What a change of makes news: all but the time itself, and the host, which is never still and goes along."""
    devices = [(device.uuid, *[getattr(device, name) for name in _TOLD]) for device in status.devices]
    return devices, status.jobs, status.claims, status.queue, status.remarks, status.problem


_TOLD = ("label", "free", "processes", "utilisation", "temperature", "power", "problem", "parts", "room", "idle_since")
