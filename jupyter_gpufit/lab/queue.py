"""Waiting for one's turn and claiming: the part of the lab that acts in time.

    look at the lab -> whose turn? -> look at the devices -> mutex, look again, publish -> are the bytes really there?

Whoever keeps the mutex stops nobody: a claim is then published without it, and withdrawn if an older one is in its way.

A waiter sleeps until the lab changes. Only one who sees its turn asks the driver, so a crowd that wakes together costs
each of them a reading of the directory and no more.
"""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial

import anyio

from ..devices.device import Device
from ..errors import BadOption, DeviceError, LabBusy, StorageError
from .again import Comeback
from .debts import DebtMemory
from .directory import Lab
from .ends import forget_old_ends
from .entry import is_exhausted
from .foresee import foresee
from .foreseen import Foreseen
from .grant import VANISHING, Granted, Held, Look, Report, memory_is_there, sort_out
from .ledger import MOST_TICKETS, LedgerLook
from .mutex import clock_moved, lab_mutex
from .place import Placement, Space, refuse_impossible, refuse_too_much_host, rooms
from .policy import Policy, UserState, exceeded
from .policy_file import load_policy
from .published import Published, publish, sweep
from .reasons import Waiting, explain
from .record import Claim, Hold, Request, Ticket
from .room import lab_trouble
from .stalled import Passing
from .turn import Go, Wait, no_room_on_host, whose_turn
from .view import LabReader
from .watch import LabWatch

AT_ONCE = 3.0  # seconds in which a move's claim must be decided: somebody waits for the answer
SLOW = 20.0  # seconds between two looks when nothing happens: processes outside the lab make no event
RETRY = 1.0  # seconds after a trouble
MUTEX_PATIENCE = 1.0  # seconds
LEISURE = 4  # times as long as a look that came to nothing, before the next one
LONGEST_PAUSE = 0.1  # seconds
IMPATIENCE = 0.02  # seconds, with who kept it before


FORESEEN = 5  # places from the head, from where one's turn is foreseen


def ignore(_: Waiting) -> None:
    """For whoever does not want to know why it waits."""


@asynccontextmanager
async def claim(lab: Lab, request: Request, look: Look, report: Report = ignore) -> AsyncIterator[Granted]:
    """Wait for devices where the job fits, and hold them until the end of the block or of this process."""
    devices: Sequence[Device] | None = await look()
    assert devices is not None
    refuse_impossible(request, devices, load_policy())
    sweep(lab.path)
    forget_old_ends(lab.path)
    queueing = _Queueing(lab, request, look, report)
    while True:
        held = await queueing.win(devices)
        try:
            if await memory_is_there(held, look, report):
                yield held.granted
                return
        finally:
            held.give_back()
        devices = None


async def claim_now(lab: Lab, request: Request, look: Look, leaving: Granted) -> Held | Waiting:
    """Claim for a job that moves, where it is its turn this very moment; else why it is not.

    It gives up what it is `leaving`, which therefore does not count against its user's limits.
    """
    devices = await look()
    refuse_impossible(request, devices, load_policy())
    sweep(lab.path)
    queueing = _Queueing(lab, request, look, ignore, leaving=leaving.claim)
    try:
        held = await queueing.win_now(devices)
    except OSError as error:
        held, queueing.reason = None, Waiting(0, 0, "trouble", remark=lab_trouble(lab, error))
    if held is None:
        return queueing.reason or Waiting(0, 0, "turn", remark="somebody was faster")
    waits: list[Waiting] = []
    try:
        with anyio.move_on_after(AT_ONCE):
            if await memory_is_there(held, look, waits.append, leaving.claim.id):
                return held
    except BaseException:  # whoever wanted it has ended, or the driver fails
        held.give_back()
        raise
    held.give_back()
    return waits[-1] if waits else Waiting(0, 0, "memory", remark="the driver takes long to answer")


@dataclass(frozen=True)
class _Among:
    """What a ticket waits among."""

    queue: Sequence[Ticket]
    spaces: Sequence[Space]
    claims: Sequence[Claim]
    policy: Policy


@dataclass
class _Queueing:
    """One ticket's way through the queue."""

    lab: Lab
    request: Request
    look: Look
    report: Report
    leaving: Claim | None = None  # that this one replaces
    spaces: tuple[Space, ...] | None = None  # None: the driver is to be asked
    reason: Waiting | None = None
    told: Waiting | None = None
    waits_among: _Among | None = None  # as of the last look
    trouble: bool = False
    mutex_kept: bool = False  # somebody does not give it back
    in_the_way: float | None = None  # since when only processes outside the lab are
    passing: Passing = field(default_factory=Passing)

    ticket: Published | None = None
    patience: float = field(default_factory=lambda: MUTEX_PATIENCE)  # with whoever has the mutex

    def __post_init__(self) -> None:
        self.reader, self.debts = LabReader(self.lab, waits=True), DebtMemory(self.lab.path)
        self.comeback = Comeback(self.lab.path)

    async def win(self, devices: Sequence[Device] | None) -> Held:
        """Wait until the claim is ours; `devices` is what the driver showed just now, if it was asked."""
        try:
            self._enter_first()
            # A device is free, most often: then nothing else needs to be set up, or read twice.
            return await self._in_trouble(partial(self._at_once, devices)) or await self._wait()
        finally:
            self._leave()

    async def win_now(self, devices: Sequence[Device]) -> Held | None:
        """Claim at once or not at all."""
        try:
            self._enter()
            return await self._in_trouble(partial(self._at_once, devices))
        finally:
            self._leave()

    def _enter_first(self) -> None:
        try:
            self._enter()
        except OSError as error:
            # In a lab that all share, others may have filled it: then we wait. In our own nobody makes room for us.
            if not self.lab.shared and not is_exhausted(error):
                raise StorageError(str(self.lab.path), error.strerror or str(error), "GPUFIT_LAB") from error

    def _enter(self) -> Published:
        """Our ticket, which is there."""
        if self.ticket is None or not self.ticket.still_there:  # somebody emptied the lab
            self._leave()
            self.ticket = publish(self.lab.path, self.request)
        return self.ticket

    def _leave(self) -> None:
        if self.ticket is not None:
            self.ticket.drop()
            self.ticket = None

    async def _at_once(self, devices: Sequence[Device] | None) -> Held | None:
        self._enter()
        if devices is None:
            self.spaces = None
            return None
        self.spaces = sort_out(devices, self.reader.snapshot().claims)
        return await self._publish()

    async def _wait(self) -> Held:
        with LabWatch(self.lab.path) as watch:
            while True:
                began = anyio.current_time()
                held = await self._in_trouble(self._try)
                if held is not None:
                    return held
                # Whoever makes files all the time must not have every waiter look all the time.
                await anyio.sleep(min(LONGEST_PAUSE, LEISURE * (anyio.current_time() - began)))
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
        except DeviceError as error:
            held, self.reason = None, self._troubled(str(error))
        except OSError as error:
            held, self.reason = None, self._troubled(lab_trouble(self.lab, error))
        if held is None and self.reason is not None:
            self._tell(self.reason)  # not under the mutex: whoever listens may take its time
        return held

    def _tell(self, reason: Waiting) -> None:
        now = time.time()
        expected = self._expected(reason, now)
        if reason != self.told or (expected is not None and expected.is_news(self.told.expected, now)):
            self.told = replace(reason, expected=expected)
            self.report(self.told)

    def _expected(self, reason: Waiting, now: float) -> Foreseen | None:
        """When it may be our turn: only those near the head ask, so that a crowd costs itself nothing by it."""
        among = self.waits_among
        if among is None or not 1 <= reason.position <= FORESEEN or reason.why in ("trouble", "memory", "strangers"):
            return None
        with suppress(OSError):
            ends = self.reader.ends(among.claims)
            queue = among.queue[: reason.position]  # who comes later changes nothing for us
            turns, me = self.reader.turns(among.claims, among.policy), os.geteuid()
            found = foresee(queue, among.spaces, among.claims, ends, among.policy, now=now, reader=me, turns=turns)
            return found[-1]
        return None

    async def _try(self) -> Held | None:
        """Claim if it is our turn; else say why it is not."""
        self._enter()
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
        await self.comeback.wait()
        try:
            async with lab_mutex(self.lab.path, patience=self.patience, name_holder=not self.mutex_kept):
                file = self._take()
                # Somebody may have gone on without the mutex, while it was not to be had.
                return self._hold(file) if file is not None and self._is_first(file, before=file.since) else None
        except LabBusy as error:
            if not self.mutex_kept:  # once is enough to know
                self.mutex_kept, self.patience = True, IMPATIENCE
                self._tell(self._troubled(str(error)))
        return await self._publish_without_mutex()

    async def _publish_without_mutex(self) -> Held | None:
        """Claim although somebody keeps the mutex: the older of two claims that do not go together stands.

        Whoever publishes later sees the earlier one, and gives up its own; by the time of the file, which the kernel
        sets. Where the clock has not moved between them, the one without the mutex gives up.
        """
        file = self._take()
        if file is None:
            return None
        with anyio.CancelScope(shield=True):
            await clock_moved(file.since)
        if self._is_first(file, before=file.since + 1):
            return self._hold(file)
        await anyio.sleep(random.uniform(0.01, 0.1))  # another one who gave up for us must not meet us again
        return None

    def _take(self) -> Published | None:
        """Publish what our turn allows us; None: somebody was faster."""
        assert self.spaces is not None
        decision = self._decide(self.reader.snapshot(), self.spaces)
        if not isinstance(decision, Go):
            return None
        placement = self.placement = decision.placement
        self.taken = Hold(
            devices=tuple(device.uuid for device in placement.devices),
            bytes=placement.bytes,
            alone=placement.alone,
            share=placement.share,
            began=self._began(placement),
        )
        return publish(self.lab.path, self.request, self.taken)

    def _began(self, placement: Placement) -> int:
        """On a device that was held already, a turn goes on."""
        was = self.leaving
        stays = was is not None and was.hold.among([device.uuid for device in placement.devices])
        return was.began if was is not None and stays else 0

    def _others(self, claims: Sequence[Claim]) -> list[Claim]:
        """Those that stay while this one comes."""
        return [claim for claim in claims if self.leaving is None or claim.id != self.leaving.id]

    def _is_first(self, file: Published, *, before: int) -> bool:
        """Do the claims of before that time leave what this one takes? Else it is given back."""
        assert self.spaces is not None
        try:
            claims = [claim for claim in self._others(self.reader.snapshot().claims) if claim.id != file.id]
            earlier = [claim for claim in claims if claim.since < before]
            left, full = rooms(self.spaces, earlier), no_room_on_host(self.request, earlier, load_policy())
            if not full and all(left[device.uuid].admits(self.placement) for device in self.placement.devices):
                return True
        except BaseException:
            file.drop()
            raise
        file.drop()
        return False

    def _hold(self, file: Published) -> Held:
        self._leave()
        with suppress(OSError):  # of descriptors, there may be none left
            file.lower()
        claim = file.as_claim(self.request, self.taken)
        placement = self.placement
        granted = Granted(placement.devices, placement.bytes, placement.alone, (file.fd,), self.lab, claim)
        return Held(file, granted)

    def _decide(self, snapshot: LedgerLook, spaces: Sequence[Space]) -> Go | Wait:
        policy, now = load_policy(), anyio.current_time()
        queue = self.reader.order(snapshot, policy)
        mine = next((ticket for ticket in queue if self.ticket is not None and ticket.id == self.ticket.id), None)
        if mine is None:
            self._refuse_too_many(queue)
            raise FileNotFoundError(errno.ENOENT, "somebody emptied it")
        # With nothing held it would exceed it, too.
        if why := exceeded(policy.of(mine.uid), UserState(), mine.request.count, mine.request.needed):
            raise BadOption(f"The job can never start: {why}.")
        refuse_too_much_host(mine.request, policy)  # an administrator may have lowered it
        claims = self._others(snapshot.claims)
        if queue[0].uid != mine.uid:
            self.debts.load(self.passing)
        passed, barred = self.passing.update(queue, now, claims), self.reader.barred(snapshot, policy)
        decision = whose_turn(mine, queue, spaces, claims, policy, passed=passed, barred=barred, reader=mine.uid)
        before = decision if isinstance(decision, Wait) else Wait((), ())
        self.passing.note(before.starting, now, before.kept_for)
        self.debts.note(self.passing.debtors())
        strangers = isinstance(decision, Wait) and decision.for_strangers_only
        self.in_the_way = (self.in_the_way or now) if strangers else None
        if isinstance(decision, Wait):
            self.waits_among = _Among(queue, spaces, claims, policy)
            why_here = explain(mine, queue, decision, spaces, claims, reader=mine.uid)
            self.reason = replace(why_here, policy=policy.warning.rstrip("."))
        return decision

    def _refuse_too_many(self, queue: Sequence[Ticket]) -> None:
        if sum(ticket.uid == os.geteuid() for ticket in queue) >= MOST_TICKETS:
            raise BadOption(
                f"You have {MOST_TICKETS} jobs in the queue, and that is the most. Start this one when another has left"
                " it."
            )

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
