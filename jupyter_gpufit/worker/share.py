"""A claim that was guessed too large becomes smaller while the training runs, and larger again where it must.

A failed estimate, or one that was far too high, so costs others a minute and not hours. It is done only to a training
that could go on if the smaller claim were wrong, from a checkpoint or from its start (see growth), and never to a
number of the user's own.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace

import anyio

from ..errors import DeviceError
from ..estimate.reckoning.share import Intake, less, more
from ..jobs.handover import note_start, noted_start
from ..lab import resize
from ..units import device_words, format_bytes
from . import no_device
from .growth import Growth
from .training import Training

EVERY = 0.5  # seconds between two looks at what it takes


class Share:
    """What a training holds of its device."""

    def __init__(self, training: Training, growth: Growth) -> None:
        self._training, self._growth = training, growth
        self._intake = Intake()
        self._shrunk = self._said_full = False

    async def watch(self) -> None:
        """While the cell runs."""
        training, after = self._training, self._training.settings.shrink_after
        if after <= 0 or self._growth.is_users_own or len(training.granted.devices) > 1:
            return
        if no_device.is_held(training.granted):
            return
        began = time.monotonic()
        while True:
            await anyio.sleep(EVERY)
            if training.meter is None or training.silent:
                continue
            now, step = time.monotonic() - began, training.steps.step
            used = training.meter.used() + training.context()
            self._intake = self._intake.seen(max(used, training.meter.peak() + training.context()), now, step)
            with suppress(DeviceError):
                if self._shrunk:
                    await self._grow(used)
                if self._intake.is_in_its_stride(now, step, after):
                    await self._shrink(step)

    async def _shrink(self, step: int) -> None:
        training, granted = self._training, self._training.granted
        assert training.meter is not None
        took = await anyio.to_thread.run_sync(training.meter.took)
        intake = replace(self._intake, peak=max(self._intake.peak, took.measured))
        wanted = less(granted.bytes, intake, granted.devices[0].total, on_slot=self._on_slot)
        if wanted is None or not await anyio.to_thread.run_sync(self._growth.goes_on_from):
            return
        held = "all" if granted.alone else format_bytes(granted.bytes)
        if await self._hold(wanted):
            self._shrunk = True
            training.note(
                f"{training.name} had a peak of {format_bytes(intake.peak)}. It holds {format_bytes(wanted)} of"
                f" {self._device} from now on instead of {held}. Others may use the rest. If it needs more, it takes"
                " more again."
            )

    async def _grow(self, used: int) -> None:
        granted = self._training.granted
        wanted = more(granted.bytes, used, on_slot=self._on_slot)
        if wanted is None or granted.alone:
            return
        self._intake = self._intake.was_wrong()
        if await self._hold(wanted) or await self._hold(None):
            self._said_full = False
            holds = "all" if granted.alone else format_bytes(granted.bytes)
            self._training.note(f"{self._training.name} needs more, and holds {holds} of {self._device} again.")
        elif not self._said_full:
            self._said_full = True
            self._training.note(
                f"{self._training.name} may need more than the {format_bytes(granted.bytes)} that it holds, and others"
                f" have the rest of {self._device}. If it runs out, {self._growth.goes_on_from()} by itself, with more."
            )

    async def _hold(self, needed: int | None) -> bool:
        """The claim, the limit that it is, and what a resume will ask for."""
        training, granted = self._training, self._training.granted
        assert training.meter is not None
        if not await resize(granted, needed, training.look):
            return False
        training.meter.limit(granted)
        training.request = replace(granted.claim.request, gpu=training.request.gpu) if training.request else None
        training.handover = replace(training.handover, needed=needed)
        with suppress(OSError):  # on a full disk, a resume guesses again
            note_start(training.paths, replace(noted_start(training.paths), needed=needed))
        return True

    @property
    def _device(self) -> str:
        return device_words([self._training.granted.devices[0].label])

    @property
    def _on_slot(self) -> bool:
        return self._training.granted.devices[0].kind == "slot"
