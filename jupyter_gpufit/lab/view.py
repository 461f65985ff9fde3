"""The lab as everybody sees it: who holds what, who waits in which order, and why."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..devices.device import Device
from ..system.users import user_name
from ..units import device_words
from .directory import Lab
from .ends import End, read_ends
from .foresee import TurnFacts, foresee
from .foreseen import Foreseen
from .grant import sort_out
from .ledger import LedgerLook, LedgerReader, Strange
from .order import fair_order, used_by_user
from .owner import is_stopped
from .place import Room, Space, rooms
from .policy import WEEK, Policy, barred, state_at, whom
from .policy_file import load_policy
from .quanta import Holding
from .reasons import Waiting, explain, whose
from .record import Claim, Ticket
from .standing import NOTHING, Standing, read_standings
from .turn import Wait, everyones_turn, held_back
from .usage import UsageReader

FORESIGHT_HOLDS = 10.0  # seconds


@dataclass(frozen=True)
class LabView:
    """A lab at one moment. Owner and time of each ticket and claim are the kernel's word."""

    claims: tuple[Claim, ...]  # oldest first
    queue: tuple[Ticket, ...]  # in the order of service
    reasons: tuple[Waiting | None, ...]  # why each ticket of the queue waits; None: it is about to start
    expected: tuple[Foreseen | None, ...]  # when each may start; None: it is about to
    rooms: dict[str, Room]  # by UUID: what is left of each device, and what strangers have of it
    held_back: dict[str, Ticket]  # by UUID: devices that stand free for a job that waits for more of them
    remarks: tuple[str, ...]  # what the reader must know: the lab is private, the policy is ignored, a file is strange
    standings: dict[str, Standing] = field(default_factory=dict)  # by claim, as far as its holder says


@dataclass
class LabReader:
    """Reads a lab again and again; what does not change is read once."""

    lab: Lab
    waits: bool = False
    _files: LedgerReader = field(init=False)
    _usage: UsageReader = field(init=False)
    _foreseen: tuple[object, tuple[Foreseen | None, ...]] = (None, ())  # of what, and what

    def __post_init__(self) -> None:
        self._files, self._usage = LedgerReader(self.lab.path, self.waits), UsageReader(self.lab.path)

    def snapshot(self) -> LedgerLook:
        return self._files.read()

    def order(self, snapshot: LedgerLook, policy: Policy) -> list[Ticket]:
        """The tickets in the order of service, the same for everybody who sees these files."""
        if len({ticket.uid for ticket in snapshot.tickets}) < 2:
            return list(snapshot.tickets)  # among one user's own, the first comes first
        # By the lab's time and not the clock's, or two who look would see two orders.
        return fair_order(snapshot.tickets, self.used(snapshot, policy, snapshot.changed), policy)

    def used(self, snapshot: LedgerLook, policy: Policy, now: float) -> dict[int, float]:
        """What each user has used, in device-seconds that fade, running claims included."""
        live = [claim.id for claim in snapshot.claims]
        past = self._usage.read(half_life=policy.half_life, now=now, live=live)
        return used_by_user(snapshot.claims, past, policy, now=now)

    def holding(self, snapshot: LedgerLook, spaces: Sequence[Space], policy: Policy, now: float) -> Holding:
        """The lab as those look at it who may have to leave."""
        return Holding(
            queue=self.order(snapshot, policy),
            spaces=spaces,
            claims=snapshot.claims,
            policy=policy,
            used=self.used(snapshot, policy, now),
            standings=self.standings(snapshot.claims),
            barred=self.barred(snapshot, policy),
            stopped={claim.id for claim in snapshot.claims if is_stopped(claim)},
        )

    def turns(self, claims: Sequence[Claim], policy: Policy) -> TurnFacts | None:
        """What is to be known to foresee turns; None: there are none."""
        if not policy.takes_turns:
            return None
        now = time.time()
        past = self._usage.read(half_life=policy.half_life, now=now, live=[claim.id for claim in claims])
        stopped = frozenset(claim.id for claim in claims if is_stopped(claim))
        return TurnFacts(used_by_user(claims, past, policy, now=now), self.standings(claims), stopped)

    def standings(self, claims: Sequence[Claim]) -> dict[str, Standing]:
        return read_standings(self.lab.path, claims)

    def barred(self, snapshot: LedgerLook, policy: Policy) -> dict[int, str]:
        """Of those who wait, whom the policy lets start nothing now, and why."""
        uids = {ticket.uid for ticket in snapshot.tickets}
        limits = {uid: policy.of(uid) for uid in uids}
        found: dict[int, str] = {}
        if any(limit.hours is not None or limit.quiet for limit in limits.values()):
            now = time.time()
            hours = self.hours(snapshot, policy, now) if any(one.hours is not None for one in limits.values()) else {}
            for uid, limit in limits.items():
                if why := barred(limit, state_at(now, hours.get(uid, 0.0)), whom(uid, os.geteuid())):
                    found[uid] = why
        return found

    def hours(self, snapshot: LedgerLook, policy: Policy, now: float) -> dict[int, float]:
        """The device-hours that each user has used in the last seven days, by uid."""
        self._usage.read(half_life=policy.half_life, now=now)
        live = {claim.id: claim for claim in snapshot.claims}
        used = self._usage.seconds_since(now - WEEK, now, live)
        for claim in live.values():
            seconds = max(0.0, now - max(claim.since / 1e9, now - WEEK))
            used[claim.uid] = used.get(claim.uid, 0.0) + claim.hold.share * seconds
        return {uid: seconds / 3600 for uid, seconds in used.items()}

    def view(self, devices: Sequence[Device]) -> LabView:
        """Everything a status shows, given what the driver shows."""
        snapshot, policy = self.snapshot(), load_policy()
        spaces, standings = sort_out(devices, snapshot.claims), self.standings(snapshot.claims)
        queue = self.order(snapshot, policy)
        not_now = self.barred(snapshot, policy)
        decisions = everyones_turn(queue, spaces, snapshot.claims, policy, barred=not_now, reader=os.geteuid())
        return LabView(
            claims=snapshot.claims,
            queue=tuple(queue),
            reasons=tuple(
                explain(ticket, queue, decision, spaces, snapshot.claims, reader=os.geteuid(), position=position)
                if isinstance(decision, Wait)
                else None
                for position, (ticket, decision) in enumerate(zip(queue, decisions, strict=True), 1)
            ),
            expected=self._expected(queue, spaces, snapshot.claims, policy, self.turns(snapshot.claims, policy)),
            rooms=rooms(spaces, snapshot.claims),
            held_back=held_back(queue, spaces, snapshot.claims),
            remarks=(
                *_remarks(self.lab.remark_on(devices), policy, snapshot, self.lab.path),
                *_idle(snapshot.claims, standings, devices),
            ),
            standings=standings,
        )

    def ends(self, claims: Sequence[Claim]) -> dict[str, End]:
        """When these claims are expected to end, by those who hold them."""
        return read_ends(self.lab.path, claims)

    def _expected(
        self,
        queue: Sequence[Ticket],
        spaces: Sequence[Space],
        claims: Sequence[Claim],
        policy: Policy,
        turns: TurnFacts | None,
    ) -> tuple[Foreseen | None, ...]:
        """Foreseen anew where something came or went, else every few seconds: a panel looks all the time."""
        if not queue:
            return ()
        now, ends = time.time(), self.ends(claims)
        key = [one.id for one in (*queue, *claims)], ends, int(now / FORESIGHT_HOLDS)
        if self._foreseen[0] != key:
            found = foresee(queue, spaces, claims, ends, policy, now=now, reader=os.geteuid(), turns=turns)
            self._foreseen = key, tuple(found)
        return self._foreseen[1]


def view_lab(lab: Lab, devices: Sequence[Device]) -> LabView:
    """The lab now."""
    return LabReader(lab).view(devices)


def _remarks(private: str, policy: Policy, snapshot: LedgerLook, place: Path) -> tuple[str, ...]:
    strange = [strange_words(place, files) for files in by_user(snapshot.strange)]
    return tuple(remark for remark in (private, policy.warning, *strange) if remark)


def _idle(claims: Sequence[Claim], standings: Mapping[str, Standing], devices: Sequence[Device]) -> list[str]:
    """Who holds without computing, for all to see."""
    me, found = os.geteuid(), []
    for claim in claims:
        if (since := standings.get(claim.id, NOTHING).idle) is not None:
            here = [device.label for device in devices if claim.hold.among([device.uuid])]
            what = f"{whose(claim.uid, me)} {claim.request.name} holds {device_words(here) if here else 'a device'}"
            at = time.strftime("%H:%M", time.localtime(since))
            found.append(f"{what[0].upper()}{what[1:]} and has computed nothing since {at}.")
    return found


def by_user(found: Sequence[Strange]) -> list[list[Strange]]:
    """Each user's strange files: one sentence for all of them, however many somebody makes."""
    users: dict[int, list[Strange]] = {}
    for file in found:
        users.setdefault(file.uid, []).append(file)
    return [users[uid] for uid in sorted(users)]


def strange_words(lab: Path, files: Sequence[Strange]) -> str:
    """What there is to say of one user's strange files."""
    who = user_name(files[0].uid)
    more = f"; {who} has {len(files) - 1} more such files" if len(files) > 1 else ""
    return f"{who}'s {lab / files[0].name} {files[0].why}{more}. Nobody waits for it; devices that it claims are held."
