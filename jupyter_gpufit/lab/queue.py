"""Waiting for one's turn and claiming: the part of the lab that acts in time.

    look at the lab -> whose turn? -> look at the devices -> mutex, look again, publish -> are the bytes really there?

A waiter sleeps until the lab changes. Only one who sees its turn asks the driver, so a crowd that wakes together costs
each of them a reading of the directory and no more.
"""

from __future__ import annotations

import errno
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import anyio

from ..devices.device import Device
from ..errors import BadOption, DeviceError, LabBusy, StorageError
from .directory import Lab
from .grant import VANISHING, Granted, Held, Look, Report, memory_is_there, sort_out
from .ledger import LedgerLook, Published, is_full, publish, sweep
from .mutex import lab_mutex
from .pause import gpufit_test_pause
from .place import Placement, Space, refuse_impossible
from .policy import load_policy
from .reasons import Waiting, explain
from .record import Hold, Request
from .stalled import Passing
from .turn import Go, Wait, limit_exceeded, whose_turn
from .view import LabReader
from .watch import LabWatch

AT_ONCE = 3.0  # seconds in which a move's claim must be decided: somebody waits for the answer
SLOW = 20.0  # seconds between two looks when nothing happens: processes outside the lab make no event
RETRY = 1.0  # seconds after a trouble


def ignore(_: Waiting) -> None:
    """For whoever does not want to know why it waits."""


@asynccontextmanager
async def claim(lab: Lab, request: Request, look: Look, report: Report = ignore) -> AsyncIterator[Granted]:
    """Wait for devices where the job fits, and hold them until the end of the block or of this process."""
    devices = await look()
    refuse_impossible(request, devices)
    sweep(lab.path)
    while True:
        held = await _Queueing(lab, request, look, report).win(devices)
        try:
            if await memory_is_there(held, look, report):
                yield held.granted
                return
        finally:
            held.give_back()
        devices = await look()


async def claim_now(lab: Lab, request: Request, look: Look, leaving: Granted) -> Held | Waiting:
    """Claim for a job that moves, where it is its turn this very moment; else why it is not.

    It gives up what it is `leaving`, which therefore does not count against its user's limits.
    """
    devices = await look()
    refuse_impossible(request, devices)
    sweep(lab.path)
    queueing = _Queueing(lab, request, look, ignore, leaving=leaving.claim.id)
    held = await queueing.win_now(devices)
    if held is None:
        return queueing.reason or Waiting(0, 0, "turn", remark="somebody was faster")
    waits: list[Waiting] = []
    with anyio.move_on_after(AT_ONCE):
        if await memory_is_there(held, look, waits.append):
            return held
    held.give_back()
    return waits[-1] if waits else Waiting(0, 0, "memory", remark="the driver takes long to answer")


@dataclass
class _Queueing:
    """One ticket's way through the queue."""

    lab: Lab
    request: Request
    look: Look
    report: Report
    leaving: str = ""  # the claim that this one replaces
    spaces: tuple[Space, ...] | None = None  # None: the driver is to be asked
    reason: Waiting | None = None
    told: Waiting | None = None
    trouble: bool = False
    in_the_way: float | None = None  # since when only processes outside the lab are
    passing: Passing = field(default_factory=Passing)

    def __post_init__(self) -> None:
        self.reader = LabReader(self.lab)

    async def win(self, devices: Sequence[Device]) -> Held:
        """Wait until the claim is ours; `devices` is what the driver showed just now."""
        self.ticket = self._enter()
        try:
            self.spaces = sort_out(devices, self.reader.snapshot().claims)
            # A device is free, most often: then nothing else needs to be set up, or read twice.
            return await self._in_trouble(self._publish) or await self._wait()
        finally:
            self.ticket.drop()

    async def win_now(self, devices: Sequence[Device]) -> Held | None:
        """Claim at once or not at all."""
        self.ticket = self._enter()
        try:
            self.spaces = sort_out(devices, self.reader.snapshot().claims)
            return await self._in_trouble(self._publish)
        finally:
            self.ticket.drop()

    def _enter(self) -> Published:
        try:
            return publish(self.lab.path, self.request)
        except OSError as error:
            raise StorageError(str(self.lab.path), error.strerror or str(error), "GPUFIT_LAB") from error

    async def _wait(self) -> Held:
        with LabWatch(self.lab.path) as watch:
            while True:
                held = await self._in_trouble(self._try)
                if held is not None:
                    return held
                if not await watch.changed(self._patience()):
                    self.spaces = None  # where nothing happened in the lab, something may have outside it
                elif self.reason is not None:
                    # One end of a job is several events, and the start of the next some more. Whoever is far behind
                    # looks when the dust has settled, and leaves the processor to those whose turn it is.
                    await anyio.sleep(min(0.2, 0.004 * max(0, self.reason.position - 1)))  # 0: not known
                    watch.forget()

    async def _in_trouble(self, attempt: Callable[[], Awaitable[Held | None]]) -> Held | None:
        """What goes wrong while we wait may pass: our place in the queue is worth more than a quick end."""
        self.trouble = True
        try:
            held = await attempt()
            self.trouble = False
        except (LabBusy, DeviceError, StorageError) as error:
            held, self.reason = None, self._troubled(str(error))
        except OSError as error:
            if not is_full(error) and not isinstance(error, FileNotFoundError):
                raise
            held, self.reason = None, self._troubled(f"{self.lab.path} cannot be used ({error.strerror})")
        if held is None and self.reason is not None and self.reason != self.told:
            self.told = self.reason
            self.report(self.reason)  # not under the mutex: whoever listens may take its time
        return held

    async def _try(self) -> Held | None:
        """Claim if it is our turn; else say why it is not."""
        if not self.ticket.still_there:  # somebody emptied the lab
            self.ticket.drop()
            self.ticket = self._enter()
        known = self.spaces is not None
        if self.spaces is None:
            self.spaces = await self._ask_driver()
        decision = self._decide(self.reader.snapshot(), self.spaces)
        if isinstance(decision, Go) or (known and decision.for_strangers_only):
            if known:  # for long, perhaps
                self.spaces = await self._ask_driver()
            return await self._publish()
        return None

    async def _ask_driver(self) -> tuple[Space, ...]:
        return sort_out(await self.look(), self.reader.snapshot().claims)

    async def _publish(self) -> Held | None:
        assert self.spaces is not None
        async with lab_mutex(self.lab.path):
            gpufit_test_pause("mutex")
            decision = self._decide(self.reader.snapshot(), self.spaces)
            return self._take(decision.placement) if isinstance(decision, Go) else None  # None: somebody was faster

    def _take(self, placement: Placement) -> Held:
        hold = Hold(
            devices=tuple(device.uuid for device in placement.devices),
            bytes=placement.bytes,
            alone=placement.alone,
            share=placement.share,
        )
        file = publish(self.lab.path, self.request, hold)
        self.ticket.drop()
        file.lower()
        claim = file.as_claim(self.request, hold)
        granted = Granted(placement.devices, placement.bytes, placement.alone, (file.fd,), self.lab, claim)
        return Held(file, granted)

    def _decide(self, snapshot: LedgerLook, spaces: Sequence[Space]) -> Go | Wait:
        policy, now = load_policy(), anyio.current_time()
        queue = self.reader.order(snapshot, policy)
        mine = next((ticket for ticket in queue if ticket.id == self.ticket.id), None)
        if mine is None:
            raise FileNotFoundError(errno.ENOENT, "somebody emptied it")
        if why := limit_exceeded(mine, policy.of(mine.uid)):
            raise BadOption(f"The job can never start: {why}.")
        claims = [claim for claim in snapshot.claims if claim.id != self.leaving]
        decision = whose_turn(mine, queue, spaces, claims, policy, passed=self.passing.update(queue, now))
        self.passing.note(decision.starting if isinstance(decision, Wait) else (), now)
        strangers = isinstance(decision, Wait) and decision.for_strangers_only
        self.in_the_way = (self.in_the_way or now) if strangers else None
        if isinstance(decision, Wait):
            self.reason = explain(mine, queue, decision, spaces, claims, reader=mine.uid)
        return decision

    def _troubled(self, why: str) -> Waiting:
        return replace(self.reason or Waiting(0, 0, "trouble"), why="trouble", holders=(), remark=why.rstrip("."))

    def _patience(self) -> float:
        """Seconds after which to look again although nothing happened in the lab."""
        if self.trouble:
            return RETRY
        now = anyio.current_time()
        if self.in_the_way is not None and now - self.in_the_way < VANISHING:
            # A holder's memory, most likely, that the driver has not freed yet.
            return min(2.0, max(0.05, (now - self.in_the_way) / 4))
        due = self.passing.due(now)
        if due is not None:
            return max(0.01, due)
        return random.uniform(SLOW * 0.75, SLOW * 1.25)  # a crowd must not ask the driver in step
