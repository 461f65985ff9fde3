"""What a job that has not queued yet may expect: what it could have now, and when its turn would come for more."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from ..devices.device import Device
from ..errors import GpufitError
from ..settings import Settings
from ..system.memory import spare_at_last
from .directory import Lab, open_lab
from .foresee import foresee
from .foreseen import Foreseen
from .grant import sort_out
from .place import Room, could_use, rooms
from .policy_file import load_policy
from .record import Request, Ticket
from .view import LabReader


@dataclass(frozen=True)
class Prospect:
    """Of one job that asks for what it needs as it is."""

    later: Foreseen  # when its turn may come
    where: str  # the label of the device, or of those, where it fits
    free: Room  # what could be had now, on the device with most


def prospect(lab: Lab, devices: Sequence[Device], request: Request) -> Prospect | None:
    """None: it is its turn at once, or there is nothing else that it could have now."""
    reader, policy, now, me = LabReader(lab), load_policy(), time.time(), os.geteuid()
    snapshot = reader.snapshot()
    spaces, queue = sort_out(devices, snapshot.claims), reader.order(snapshot, policy)
    ends, turns = reader.ends(snapshot.claims), reader.turns(snapshot.claims, policy)

    def expected(asked: Request) -> Foreseen | None:
        last = Ticket(id="", uid=me, since=int(now * 1e9), tie=0, pid=os.getpid(), request=asked)
        tickets = [*queue, last]
        return foresee(tickets, spaces, snapshot.claims, ends, policy, now=now, reader=me, turns=turns)[-1]

    later = expected(request)
    free = max(rooms(spaces, snapshot.claims).values(), key=lambda room: room.free, default=None)
    if later is None or free is None or not free.free or expected(_part(request, free)) is not None:
        return None
    labels = [space.device.label for space in could_use(request, spaces)]
    return Prospect(later, " or ".join(labels), free)


def host_ahead(settings: Settings) -> int:
    """Bytes of the host's memory that a plan can have, now or when the plans of others have ended."""
    held = 0
    with suppress(OSError, GpufitError):  # which is said where it queues
        held = sum(claim.request.host for claim in LabReader(open_lab(settings)).snapshot().claims)
    return min(spare_at_last(held), load_policy().for_plans)


def _part(request: Request, room: Room) -> Request:
    """For what is free there, and no more."""
    return Request(job_id=request.job_id, name=request.name, needed=room.free, gpu=room.device.uuid)
