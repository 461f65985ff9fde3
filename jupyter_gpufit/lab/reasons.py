"""Why a job waits: a value that is equal as long as the reason is the same, and its sentence.

It is told to one reader, whose own jobs are "your": in a list of the queue, too, where somebody else waits for them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ..devices.device import Process
from ..system.users import user_name
from ..units import device_words, format_bytes, format_duration
from .foreseen import Foreseen, on_the_clock
from .place import Space, could_use
from .record import Claim, Request, Ticket
from .turn import Wait

Why = Literal["held", "strangers", "turn", "limit", "trouble", "memory"]
MOST_NAMED = 3
LONGEST_LABEL = 30  # characters


@dataclass(frozen=True)
class Holder:
    """Who has what a waiting job needs."""

    whose: str  # "ada's"; of the kernel's telling
    what: str  # the job's name, or "process 1234"
    device: str  # its label
    bytes: int | None  # None: the driver does not say
    alone: bool = False
    since: float | None = None  # seconds since 1970

    def sentence(self, now: float, *, stays: bool = False) -> str:
        """`stays`: for a line that is read later, too."""
        much = "all of it" if self.alone else "some memory" if self.bytes is None else format_bytes(self.bytes)
        long = ""
        if self.since:
            when = (
                f"since {on_the_clock(self.since, now)}"
                if stays
                else f"for {format_duration(max(0.0, now - self.since))}"
            )
            long = f" {when}"
        return f"{self.whose} {self.what} {'has held' if long else 'holds'} {self.device} ({much}){long}"


@dataclass(frozen=True)
class Waiting:
    """Where a job stands in the queue, and what keeps it there."""

    position: int  # 1: the head; 0: not in the queue
    of: int
    why: Why
    holders: tuple[Holder, ...] = ()  # the largest
    more: int = 0  # holders beside those
    remark: str = ""  # what else there is to say
    head: str = ""  # what the head of the queue waits for
    expected: Foreseen | None = field(default=None, compare=False)  # when it may start: no reason of its own
    policy: str = ""  # why the lab's policy is not followed as it stands

    def sentence(self, now: float, *, stays: bool = False) -> str:
        parts = self._causes(now, stays=stays)
        if self.position:
            parts.append(f"you are {ordinal(self.position)} of {self.of}")
        if self.position > 1 and self.head:
            parts.append(f"the next in line waits for {self.head}")
        if self.policy:
            parts.append(self.policy)
        if self.expected is not None:
            parts.append(self.expected.clock(now))
        return "; ".join(parts)

    def reason(self, now: float) -> str:
        """What keeps it waiting, without its place: for a list of the queue."""
        return "; ".join(self._causes(now))

    def _causes(self, now: float, *, stays: bool = False) -> list[str]:
        parts = [holder.sentence(now, stays=stays) for holder in self.holders]
        if self.more:
            parts.append(f"{self.more} {'other holds' if self.more == 1 else 'others hold'} part of it, too")
        if self.remark:
            parts.append(self.remark)
        return parts

    def __str__(self) -> str:
        return self.sentence(time.time())


def ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def whose(uid: int, reader: int) -> str:
    """ "your", or "ada's" """
    return "your" if uid == reader else f"{user_name(uid)}'s"


def explain(
    mine: Ticket,
    queue: Sequence[Ticket],
    wait: Wait,
    spaces: Sequence[Space],
    claims: Sequence[Claim],
    *,
    reader: int,
    position: int = 0,
) -> Waiting:
    """Put the reason for waiting into words that name the people and amounts; `position` where it is known."""
    position = position or next(index for index, ticket in enumerate(queue, 1) if ticket.id == mine.id)
    head = wants(queue[0].request)
    if wait.limit:
        return Waiting(position, len(queue), "limit", remark=wait.limit, head=head)
    if wait.fits:
        return Waiting(position, len(queue), "turn", remark=_turn(wait, reader), head=head)
    holders, strangers = _holders(mine.request, spaces, claims), _strangers(mine.request, spaces, reader)
    if not holders and not strangers and (shut := _closed(mine.request, spaces)):
        return Waiting(position, len(queue), "limit", remark=shut, head=head)
    named = [_holder(claim, spaces, reader) for claim in holders[:MOST_NAMED]]
    named += strangers[: MOST_NAMED - len(named)]
    return Waiting(
        position,
        len(queue),
        why="held" if holders else "strangers",
        holders=tuple(named),
        more=len(holders) + len(strangers) - len(named),
        remark="" if holders else "outside the lab",
        head=head,
    )


def _turn(wait: Wait, reader: int) -> str:
    if wait.starting:
        return f"{_names(wait.starting, reader)} comes first and is about to start"
    return f"there is room, but {_names(wait.waiting, reader)} came first and may need it"


def _closed(request: Request, spaces: Sequence[Space]) -> str:
    """Which devices the job could use, if the lab's policy let it."""
    shut = could_use(request, [replace(space, closed="") for space in spaces if space.closed])
    if not shut:
        return ""
    why = next(space.closed for space in spaces if space.device.uuid == shut[0].device.uuid)
    return f"{device_words([space.device.label for space in shut])} {why}"


def _holders(request: Request, spaces: Sequence[Space], claims: Sequence[Claim]) -> list[Claim]:
    """Who holds devices that the job could use: the largest first."""
    useful = {space.device.uuid for space in could_use(request, spaces)}
    here = [claim for claim in claims if claim.hold.among(useful)]
    return sorted(here, key=lambda claim: (-claim.hold.bytes, claim.since))


def _holder(claim: Claim, spaces: Sequence[Space], reader: int) -> Holder:
    hold, request = claim.hold, claim.request
    where = device_words([space.device.label for space in spaces if hold.among([space.device.uuid])])
    # Of one's own jobs, some have the same name in several notebooks.
    what = f"{request.name} ({_short(request.label)})" if claim.uid == reader and request.label else request.name
    return Holder(whose(claim.uid, reader), what, where, hold.bytes, hold.alone, claim.since / 1e9)


def _short(label: str) -> str:
    """A notebook without its folders, the beginning of a command line."""
    text = label.rpartition("/")[2] if label.endswith(".ipynb") else label
    return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 1]}…"


def _strangers(request: Request, spaces: Sequence[Space], reader: int) -> list[Holder]:
    return [
        stranger(process, space, reader)
        for space in could_use(request, spaces)
        if space.foreign > space.reserve
        for process in sorted(space.strangers, key=lambda process: -(process.bytes or 0))
    ]


def stranger(process: Process, space: Space, reader: int) -> Holder:
    """A process outside the lab, as a holder of what it uses."""
    by = "your" if process.user == user_name(reader) else f"{process.user}'s"
    where = device_words([space.device.label])
    return Holder(by, f"process {process.pid}", where, process.bytes, since=process.started)


def wants(request: Request) -> str:
    """ "40.0 GiB", "2 whole devices", "12.0 GiB on each of 2 devices" """
    several = request.count > 1
    if request.needed is None:
        return f"{request.count} whole devices" if several else "a whole device"
    much = format_bytes(request.needed) + (f" on each of {request.count} devices" if several else "")
    much = f"{much}, without neighbours" if request.exclusive else much
    return f"{much}, and {format_bytes(request.host)} of the host's memory" if request.host else much


def _names(tickets: Sequence[Ticket], reader: int) -> str:
    first = f"{whose(tickets[0].uid, reader)} {tickets[0].request.name}"
    return first if len(tickets) == 1 else f"{first} (and {len(tickets) - 1} more)"
