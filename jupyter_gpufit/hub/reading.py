"""One reading of the lab for all who look at the page, and every few seconds for what is remembered of it.

It is read by the code that `gpufit status` uses, in a thread: a driver that hangs holds up no page.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import anyio

from ..actions.status import Status, StatusReader
from ..errors import GpufitError
from ..lab import open_lab
from ..lab.happenings import Happening, HappeningReader
from ..lab.history import all_uses
from ..lab.usage import Use
from ..settings import Settings, load_settings
from ..system.background import aside
from .figures import LabFigures
from .store import DeviceLook, HubStore

log = logging.getLogger(__name__)

EVERY = 10.0  # seconds between two readings that are remembered
FRESH = 2.0  # seconds for which one serves every page
PATIENCE = 5.0  # seconds that a page waits for a reading


@dataclass(frozen=True)
class HubReading:
    """What one look found."""

    status: Status
    uses: Mapping[int, Sequence[Use]]
    happened: tuple[Happening, ...] = ()


@dataclass
class HubReader:
    """Reads, remembers and counts; on one event loop."""

    store: HubStore
    figures: LabFigures
    latest: HubReading | None = None
    _status: StatusReader = field(default_factory=StatusReader)
    _happenings: HappeningReader | None = None
    _under_way: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._look()
            await asyncio.sleep(EVERY)

    async def fresh(self) -> HubReading:
        """A reading that is fresh enough; an old one, with its own time on it, where the driver does not answer."""
        if self.latest is None or time.time() - self.latest.status.time > FRESH:
            with anyio.move_on_after(PATIENCE):
                await self._look()
        if self.latest is None:
            return HubReading(Status((), (), "The devices have not answered yet.", time.time()), {})
        return self.latest

    async def _look(self) -> None:
        if self._under_way is None or self._under_way.done():
            self._under_way = asyncio.create_task(self._read_aside())
        await asyncio.shield(self._under_way)

    async def _read_aside(self) -> None:
        try:
            reading = await aside(self._read)
        except Exception:  # the outermost frame of a look: the service must outlive it
            log.exception("The lab could not be read")
            return
        self.latest = reading
        self.figures.note(reading.status, reading.happened)

    def _read(self) -> HubReading:
        """In a thread, one at a time."""
        settings = load_settings()
        status = self._status.read(settings)
        try:
            uses, happened = self._lab(settings)
        except (GpufitError, OSError):
            uses, happened = {}, ()  # the status says why the lab cannot be read
        held = {label for claim in status.claims for label in claim.devices}
        looks = [
            DeviceLook(one.label, None if one.utilisation is None else one.utilisation / 100, one.label in held)
            for one in status.devices
        ]
        self.store.note(status.time, looks, uses)
        return HubReading(status, uses, happened)

    def _lab(self, settings: Settings) -> tuple[dict[int, list[Use]], tuple[Happening, ...]]:
        lab = open_lab(settings)
        if self._happenings is None or self._happenings.lab != lab.path:
            self._happenings = HappeningReader(lab.path)
        return all_uses(lab, time.time()), self._happenings.new()
