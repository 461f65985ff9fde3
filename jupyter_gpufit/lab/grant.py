"""Holding devices: what a job was granted, until it is given back or the process ends."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio

from ..devices.device import Device
from ..errors import ClaimGone, DeviceError
from ..units import device_words
from .again import publish_again
from .directory import Lab
from .ends import End, EndNote
from .ledger import LedgerReader
from .owner import covered, is_its_writer
from .place import Room, Space, least, measure, rooms
from .policy_file import load_policy
from .published import Published
from .reasons import Waiting, stranger
from .record import LONGEST, Claim, decode
from .usage import note_use

Look = Callable[[], Awaitable[Sequence[Device]]]
Report = Callable[[Waiting], None]

VANISHING = 60.0  # seconds in which the memory of a dead process is expected to come back


@dataclass
class Granted:
    """What a job may use until it gives it back; how much of its devices that is may change (see resize)."""

    devices: tuple[Device, ...]
    bytes: int  # on each
    alone: bool
    fds: tuple[int, ...]  # a child that may use the devices inherits them, and holds the claim as long as it lives
    lab: Lab
    claim: Claim
    _note: EndNote | None = None  # when it expects to end

    @property
    def still_there(self) -> bool:
        """False once somebody emptied the lab, or made it anew."""
        return Published(self.lab.path / self.claim.id, self.fds[0]).still_there

    def come_back(self) -> None:
        """Publish the claim anew; OSError where there is no lab."""
        self.mark()  # the use so far, by the claim that it was
        self.claim = publish_again(self.lab.path, self.claim, self.fds[0])

    @property
    def remark(self) -> str:
        """What its holder must know of the lab."""
        return self.lab.remark_on(self.devices)

    def mark(self) -> None:
        """Note the use so far; to be called every few minutes, so that a killed job's time is counted, too."""
        with suppress(OSError):
            note_use(self.lab.path, self.claim, time.time())

    def expect(self, end: End | None, now: float) -> None:
        """Tell those who wait when it will be given back; None: that is not known, or no longer."""
        if self._note is not None and self._note.claim != self.claim.id:  # it became another (see resize)
            self._note.drop()
            self._note = None
        if self._note is None:
            self._note = EndNote(self.lab.path, self.claim.id)
        self._note.tell(end, now)


@dataclass
class Held:
    """A claim of this process."""

    file: Published
    granted: Granted

    def give_back(self) -> None:
        self.granted.mark()  # first: whoever sees the claim gone sees its use
        self.granted.expect(None, time.time())
        self.file.path = self.granted.lab.path / self.granted.claim.id  # as it is now (see resize)
        self.file.drop()


@asynccontextmanager
async def adopt(lab: Lab, id: str, fd: int, look: Look) -> AsyncIterator[Granted]:
    """Go on holding a claim that this very process took before it replaced its image (exec); `fd` came through that."""
    try:
        mine = _taken_over(lab.path, id, fd)
    except ClaimGone:
        os.close(fd)  # whoever knew the claim would count it for as long as its lock is held
        raise
    os.set_inheritable(fd, False)
    devices = tuple(device for device in await look() if device.uuid in mine.hold.devices)
    held = Held(Published(lab.path / mine.id, fd), Granted(devices, mine.hold.bytes, mine.hold.alone, (fd,), lab, mine))
    try:
        yield held.granted
    finally:
        held.give_back()


def _taken_over(lab: Path, id: str, fd: int) -> Claim:
    """The claim that has this descriptor; published anew where somebody has emptied the lab."""
    try:
        request, _, hold = decode(os.pread(fd, LONGEST, 0))
        if hold is None:
            raise ClaimGone(id, str(lab))
        file = Published(lab / id, fd)
        mine = file.as_claim(request, hold)
        return mine if file.still_there else publish_again(lab, mine, fd)
    except (OSError, ValueError) as error:
        raise ClaimGone(id, str(lab)) from error


def sort_out(devices: Sequence[Device], claims: Sequence[Claim]) -> tuple[Space, ...]:
    """Tell what on the devices belongs to these claims' processes and their children."""
    holders = {claim.pid: claim.id for claim in claims if is_its_writer(claim)}
    ours = covered((p.pid for device in devices for p in device.processes), holders)
    return measure(devices, claims, ours, load_policy())


async def memory_is_there(held: Held, look: Look, report: Report, leaving: str = "") -> bool:
    """Wait, bounded, until the driver shows the granted bytes as free: a holder before us may be dead and not yet gone.

    Between our look at the devices and our claim, a claim can have ended whose memory the driver has not freed yet.
    `leaving`: the claim that this one comes in the place of, whose memory is ours.
    """
    if all(device.kind == "slot" for device in held.granted.devices):
        return True
    deadline, pause = anyio.current_time() + VANISHING, 0.05
    reader, told = LedgerReader(held.granted.lab.path), None
    while True:
        try:
            short = await _short(held.granted, reader, look, leaving)
            if not short:
                return True
            waiting = _memory_missing(short)
        except (DeviceError, OSError) as error:  # it may pass: our claim is worth more than a quick end
            waiting = Waiting(0, 0, "trouble", remark=str(error).rstrip("."))
        if waiting != told:
            report(waiting)
            told = waiting
        if anyio.current_time() > deadline:
            return False
        await anyio.sleep(pause)
        pause = min(2.0, pause * 1.5)


async def _short(granted: Granted, reader: LedgerReader, look: Look, leaving: str) -> list[Room]:
    """The granted devices on which the bytes are not there."""
    devices = await look()
    claims = reader.read().claims  # now and not before: whoever ended meanwhile may still have its memory
    spaces = sort_out(devices, claims)
    left = rooms(spaces, [claim for claim in claims if claim.id not in (granted.claim.id, leaving)])
    ours = [left.get(device.uuid, Room(Space(device, foreign=device.total))) for device in granted.devices]
    return [room for room in ours if room.free < least(granted.claim.request, room.space)]


def _memory_missing(short: Sequence[Room]) -> Waiting:
    me = os.geteuid()
    strangers = tuple(stranger(process, room.space, me) for room in short for process in room.space.strangers)
    where = device_words([room.device.label for room in short])
    return Waiting(0, 0, "memory", strangers, remark=f"{where} is yours as soon as its memory is free")
