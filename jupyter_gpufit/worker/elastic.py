"""A training on a range of devices (`--gpus 1-4`) goes on on more of them, or on fewer, while it runs.

Every `replan` seconds it is decided again. It gives devices above its least to who waits for them. Else it takes the
number on which its own steps say that it ends first, where that saves twice what the change costs. It holds the new
devices before it leaves the old ones, and goes on from a safe point as after a move: so a change may come to nothing,
and nothing is lost by that.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import anyio

from ..errors import GpufitError
from ..fit.elastic import BetterNumber, Underway, better
from ..lab import Held, Waiting, claim_now
from ..lab.fewer import some_of
from ..lab.grant import sort_out
from ..lab.policy_file import load_policy
from ..lab.quanta import Holding
from ..lab.reasons import whose
from ..lab.surplus import StillHeld, given_back, to_be_had
from ..lab.view import LabReader
from ..train import Moved
from ..units import device_words, format_duration
from . import no_device
from .lifecycle import Asked, refusal
from .saving import Saver
from .training import Training

LOOK = 0.5  # seconds between two looks at whether its devices all do the same
EVERY = 0.1  # seconds between two looks at whether it has made a step
MEASURED = 5  # steps, without which nothing is known of its pace
START = 5.0  # seconds that a change is taken to cost beside the save and the first step, until there was one
AFTER_FAILURE = 10  # times as long until the next look, after a change that came to nothing


@dataclass(frozen=True)
class PaceByDevices:
    """What a training knows of its pace on each number of devices; in its handover it goes from image to image."""

    seconds: Mapping[int, float] = field(default_factory=dict)  # that a step takes
    ran: float = 0.0  # seconds, before this image
    before: int = 0  # devices of the image before this one, where it changed by itself; 0: it did not
    stood: float = 0.0  # seconds since 1970: when that stood still
    why: str = ""  # it changed, in a clause; empty: since it is faster

    @classmethod
    def from_record(cls, record: Mapping[str, Any] | None) -> PaceByDevices:
        if record is None:
            return cls()
        return cls(**{**record, "seconds": {int(number): time for number, time in record["seconds"].items()}})

    def to_record(self) -> dict[str, Any]:
        return asdict(self)


class Elastic:
    """Of one training's stay on its devices."""

    def __init__(self, training: Training, saver: Saver) -> None:
        self._training, self._saver = training, saver
        self._past = PaceByDevices.from_record(training.handover.course)
        self._began, self._cost = time.monotonic(), 0.0
        if self._past.before:  # it is said once: of the next image nobody knows yet why it begins
            known = replace(self._past, before=0, why="")
            training.handover = replace(training.handover, course=known.to_record())
        self._failed = False

    async def watch(self) -> None:
        """While the cell runs."""
        training, every = self._training, self._training.settings.replan
        training.gives = False
        if self._devices > 1 and not training.fit.split and not no_device.is_held(training.granted):
            async with anyio.create_task_group() as group:
                group.start_soon(self._leave_the_others)
                await self._watch(every)
        else:
            await self._watch(every)

    async def _leave_the_others(self) -> None:
        """Once each device computes the same: one does as well, and others wait for them."""
        training = self._training
        while not training.whole or refusal(training.life, "change") is not None:  # noqa: ASYNC110 - likewise
            await anyio.sleep(LOOK)
        granted = training.granted
        with suppress(OSError):  # the lab has no room: it stays as it is
            only = some_of(granted, [granted.devices[0].uuid])
            self._go_on_with(only, f"{training.whole} cannot be computed in parts", gpus=(1, 1))

    async def _watch(self, every: float) -> None:
        training, is_free = self._training, every > 0 and self._is_free()
        if not is_free and not self._past.before:
            return
        while training.steps.made < 1:  # noqa: ASYNC110 - the main thread makes no event of it
            await anyio.sleep(EVERY)
        entered = time.monotonic() - self._began
        self._cost = time.time() - self._past.stood if self._past.before else START + entered
        async with anyio.create_task_group() as group:
            group.start_soon(self._say_what_it_brought)
            if not is_free:
                return
            training.gives = True
            while True:
                await anyio.sleep(every)
                if self._failed:  # which is known only seconds after the look that wanted it
                    await anyio.sleep(every * (AFTER_FAILURE - 1))
                    self._failed, training.gives = False, True
                try:
                    await self._look()
                except (OSError, GpufitError):  # the driver or the lab: no reason to end a training
                    continue
                except Exception as error:  # of ours: likewise, but it would come again and again
                    training.defect(error)
                    training.gives = False
                    return

    def _is_free(self) -> bool:
        """Whether nobody has said on how many devices it runs: a user who moves it does."""
        training, request = self._training, self._training.granted.claim.request
        return request.most > request.count and not training.fit.plan.parts and not no_device.is_held(training.granted)

    @property
    def _devices(self) -> int:
        return len(self._training.granted.devices)

    def _seconds(self) -> Mapping[int, float]:
        """That a step takes, by the number of devices; without this one's, nothing is known yet."""
        steps, rate = self._training.steps, self._training.pace.steps_per_second
        seconds = steps.seconds or (1 / rate if rate else 0.0)
        if steps.made < MEASURED or not seconds:
            return self._past.seconds
        return {**self._past.seconds, self._devices: seconds}

    async def _say_what_it_brought(self) -> None:
        past, many = self._past, self._devices
        if not past.before:
            return
        while self._training.steps.made < MEASURED or many not in self._seconds():  # noqa: ASYNC110 - likewise
            await anyio.sleep(EVERY)
        where = device_words([device.label for device in self._training.granted.devices])
        on = f"{many} devices, {where}," if many > 1 else f"one device, {where},"
        faster = past.seconds[past.before] / self._seconds()[many] if past.before in past.seconds else 0.0
        pace = f"about {faster:.2g}x as fast; " if faster else ""
        why = f", since {past.why}" if past.why else ""
        self._training.note(
            f"{self._training.name} continues on {on} instead of {past.before}{why}: {pace}the change took"
            f" {self._cost:.1f} s."
        )

    async def _look(self) -> None:
        training, claim = self._training, self._training.granted.claim
        if refusal(training.life, "change") is not None:
            return
        lab = await self._lab()
        if (kept := given_back(lab).get(claim.id)) is not None:
            self._go_on_with(some_of(training.granted, kept.devices), self._for_others(kept))
            return
        seconds = self._seconds()
        if self._devices not in seconds or training.request is None:
            return
        more = to_be_had(claim, training.request, lab)
        stayed = time.monotonic() - self._began if self._past.before else float("inf")
        left = training.left if training.left is not None else self._ran()
        now = Underway(self._devices, seconds, left, self._cost + training.saving_took, stayed)
        change = better(now, range(claim.request.count, self._devices + len(more) + 1))
        if change is not None and (held := await self._take(change, more)) is not None:
            self._go_on_with(held, "", self._worth(change, now))

    async def _lab(self) -> Holding:
        granted = self._training.granted
        reader, policy = LabReader(granted.lab), load_policy()
        snapshot = reader.snapshot()
        spaces = sort_out(await self._training.look(), snapshot.claims)
        return reader.holding(snapshot, spaces, policy, time.time())

    def _ran(self) -> float:
        """Seconds so far: for as long again it is taken to run where its loops say nothing."""
        return self._past.ran + time.monotonic() - self._began

    async def _take(self, change: BetterNumber, more: list[str]) -> Held | None:
        """All of the devices at once; None: they are not to be had after all."""
        granted = self._training.granted
        own = [device.uuid for device in granted.devices]
        if change.devices <= len(own):
            return some_of(granted, own[: change.devices])
        wanted = [*own, *more[: change.devices - len(own)]]
        request = replace(granted.claim.request, gpu=",".join(wanted))
        held = await claim_now(granted.lab, request, self._training.look, granted)
        if isinstance(held, Waiting):
            return None
        if len(held.granted.devices) == change.devices:
            return held
        held.give_back()
        return None

    def _for_others(self, kept: StillHeld) -> str:
        ticket = kept.ticket
        return f"{whose(ticket.uid, self._training.granted.claim.uid)} {ticket.request.name} waits"

    def _worth(self, change: BetterNumber, now: Underway) -> str:
        saves, cost = format_duration(change.saves), format_duration(now.cost)
        return f"about {change.faster:.1f}x as fast, which saves {saves} and costs {cost}"

    def _go_on_with(self, held: Held, why: str, worth: str = "", *, gpus: tuple[int, int] | None = None) -> None:
        """`gpus`: on how many it is to run from then on, also when it is resumed."""
        training = self._training
        if refusal(training.life, "change") is not None:  # it was asked for something else meanwhile
            held.give_back()
            return
        past = PaceByDevices(self._seconds(), self._ran(), self._devices, why=why)
        where = device_words([device.label for device in held.granted.devices])
        words = f"to go on on {where} instead of {self._devices} devices, from its next safe point: {why or worth}"
        training.take(Asked("change", words))

        def leave(step: int) -> Moved:
            stood = time.time() - training.saving_took
            record = replace(past, stood=stood).to_record()
            training.handover = replace(training.handover, course=record, gpus=gpus or training.handover.gpus)
            return Moved(held.granted)

        def give_up() -> None:
            self._failed, training.gives = True, False
            held.give_back()

        self._saver.ask("move", leave, give_up, own=True)
