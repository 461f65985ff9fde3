"""Whose turn is over? Pure: every holder answers it from the same files, and leaves by itself if it is its own.

A holder's turn lasts its quantum at least, which a user's jobs that run at once share, and goes on for as long as
nobody waits. Then the queue is gone through in its order: for the first job that waits, those leave without whom it
would start, and whose own next turn would come after it. So nobody leaves for a job that would not start by that, nor
for one of their own, and who has used least stays longest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from .fewest import fewest
from .place import Space, could_use
from .policy import Policy
from .record import Claim, Ticket
from .standing import NOTHING, Standing
from .turn import may_start, who_waits

MOST = 32  # waiting jobs that are looked at, from the head of the queue
MOST_SHARING = 4  # of a user's jobs that share a quantum: a turn must be worth the save that ends it
PATIENCE = 300.0  # seconds after which one who was to leave and did not is counted on no longer


@dataclass(frozen=True, kw_only=True)
class Holding:
    """The lab as its holders look at it."""

    queue: Sequence[Ticket]  # in the order of service
    spaces: Sequence[Space]
    claims: Sequence[Claim]
    policy: Policy
    used: Mapping[int, float]  # device-seconds by uid, with running claims and their penalties
    standings: Mapping[str, Standing]  # by claim
    barred: Mapping[int, str] = field(default_factory=dict)
    stopped: Collection[str] = ()  # claims whose processes are stopped, and so hear of no turn


@dataclass(frozen=True)
class TurnOver:
    """Why a claim is to be given back."""

    ticket: Ticket | None = None  # for whom; None: its device is drained


def turns_over(lab: Holding, now: float) -> dict[str, TurnOver]:
    """The claims that are to be given back by that moment, by id."""
    over = {claim.id: TurnOver() for claim in lab.claims if _is_drained(claim, lab)}
    left = [claim for claim in lab.claims if claim.id not in over]
    sharing = Counter(claim.uid for claim in lab.claims)
    due = [claim for claim in left if _is_due(claim, lab, now, sharing[claim.uid])]
    queue = lab.queue[:MOST] if due else ()
    given_up: set[str] = set()
    while True:
        waiting = who_waits(queue, lab.spaces, left, lab.policy, barred=lab.barred)
        for ticket in waiting:
            leaving = [] if ticket.id in given_up else _who_leaves(ticket, queue, left, due, lab)
            given_up.add(ticket.id)
            if leaving:
                break
        else:
            return over
        over |= {claim.id: TurnOver(ticket) for claim in leaving}
        left, due = ([claim for claim in claims if claim.id not in over] for claims in (left, due))


def ends_at_the_earliest(claim: Claim, policy: Policy) -> float | None:
    """The first moment at which a claim's turn may be over, however many jobs its user has; None: it is never."""
    return _end(claim, policy, MOST_SHARING)


def _end(claim: Claim, policy: Policy, sharing: int) -> float | None:
    """In seconds since 1970, if its user has so many jobs.

    Who enters many jobs into an empty lab holds it all: were each to last a quantum, the others would not make up for
    that in an hour. So jobs of one user share theirs.
    """
    quantum = policy.of(claim.uid).quantum
    return None if quantum is None else claim.began / 1e9 + quantum / min(sharing, MOST_SHARING)


def _is_drained(claim: Claim, lab: Holding) -> bool:
    here = [space.device for space in lab.spaces if claim.hold.among([space.device.uuid])]
    return lab.standings.get(claim.id, NOTHING).yields and any(lab.policy.drains(device) for device in here)


def _who_leaves(
    ticket: Ticket, queue: Sequence[Ticket], left: Sequence[Claim], due: Sequence[Claim], lab: Holding
) -> list[Claim]:
    """The fewest, of those who have used most, without whom the ticket starts; nobody if that is not enough.

    Of those that come first some may be on another device, and stay.
    """
    useful = {space.device.uuid for space in could_use(ticket.request, lab.spaces)}
    due = [claim for claim in due if claim.hold.among(useful) and _comes_after(claim, ticket, lab)]
    due.sort(key=lambda claim: _last_first(claim, lab))

    def starts(gone: Sequence[Claim]) -> bool:
        ids = {claim.id for claim in gone}
        stay = [claim for claim in left if claim.id not in ids]
        return may_start(ticket, queue, lab.spaces, stay, lab.policy, barred=lab.barred)

    return fewest(due, starts)


def _is_due(claim: Claim, lab: Holding, now: float, sharing: int) -> bool:
    if claim.id in lab.stopped:
        return False  # another one leaves in its place
    standing, end = lab.standings.get(claim.id, NOTHING), _end(claim, lab.policy, sharing)
    gone_by_now = standing.leaves is None or now <= standing.leaves + PATIENCE
    return standing.yields and end is not None and end <= now and gone_by_now


def _comes_after(claim: Claim, ticket: Ticket, lab: Holding) -> bool:
    """Would the claim's job, in the queue again, have to wait for the ticket?"""
    if claim.uid == ticket.uid:
        return False
    spent = lab.used.get(claim.uid, 0.0) - lab.policy.entry_penalty * claim.hold.count  # which its next turn costs anew
    mine = -lab.policy.of(claim.uid).priority, round(spent)
    return (-lab.policy.of(ticket.uid).priority, round(lab.used.get(ticket.uid, 0.0))) <= mine


def _last_first(claim: Claim, lab: Holding) -> tuple[bool, int, int, int, int]:
    """Who has said that they leave, then who has used most, then who has held longest."""
    leaves = lab.standings.get(claim.id, NOTHING).leaves is not None
    spent = round(lab.used.get(claim.uid, 0.0))
    return not leaves, lab.policy.of(claim.uid).priority, -spent, claim.began, claim.tie
