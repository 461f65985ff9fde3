"""Where a model runs, and how it comes there: a device claimed, an instance started on it, another one that follows.

The next place is held, and has answered, before the one before it is left. The change itself is the desk's.
"""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

import anyio
import anyio.abc
import anyio.to_thread

from ..actions.request import request_for
from ..devices.cards import context_of
from ..devices.device import Device, find_device
from ..devices.here import read_devices_async
from ..errors import CouldNotDeploy, GpufitError, LeavesAlready, NotNow
from ..estimate.reckoning.learned import Lesson, learn
from ..jobs.account import JobAccount
from ..jobs.events import CouldNotSave, Note, StateChange
from ..jobs.handover import Handover
from ..jobs.job import Job
from ..jobs.paths import JobPaths
from ..lab import Granted, Waiting, claim, claim_now, open_lab
from ..lab.holder import keep
from ..models.need import need_of_several
from ..models.taken import models_from_json
from ..settings import Settings
from ..units import device_words, format_bytes, format_duration
from .desk import Desk
from .providers import provider_for, threads_for
from .session import LoadedModels
from .standing import StandingInstance, cores


@dataclass
class Place:
    """What is held, and who runs there."""

    granted: Granted
    instance: StandingInstance
    give_back: Callable[[], Awaitable[None]]


class Places:
    """Those of one job: the one where its model answers, and for the time of a move the next one."""

    def __init__(
        self,
        settings: Settings,
        paths: JobPaths,
        job: Job,
        handover: Handover,
        account: JobAccount,
        desk: Desk,
    ) -> None:
        assert job.model is not None
        self.here: Place | None = None
        self.moving = False
        self._settings = settings
        self._job = job
        self._model = job.model
        self._handover = handover
        self._account = account
        self._paths = paths
        self._desk = desk
        self._numbers = 0  # of moves
        request = request_for(job, handover.needed)
        self._request = replace(request, gpu=handover.gpu) if handover.gpu else request

    async def begin(self, holding: anyio.abc.TaskGroup) -> None:
        """Wait for a device, and load there; what is held is looked after in the group."""
        self._holding = holding
        self._lab = open_lab(self._settings, waits=True)

        def waiting(why: Waiting) -> None:
            self._account.report(StateChange("queued", str(why)))

        held = claim(self._lab, self._request, self._look, waiting)
        granted = await held.__aenter__()

        async def give_back() -> None:
            await held.__aexit__(None, None, None)

        if granted.remark:
            self._account.put(Note(granted.remark, once=True))
        try:
            self._account.report(StateChange("starting", device=_label(granted)))
            self.here = await self._load(granted, give_back)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await give_back()
            raise

    async def answer_here(self) -> None:
        assert self.here is not None
        await self._switch(self.here.instance)

    async def leave(self, *, answered: bool) -> None:
        """Have what waits answered, if it is to be; then leave the device."""
        place, self.here = self.here, None
        if place is None:
            return
        if answered:
            await self._switch(None)
        else:
            self._desk.give_up("it was stopped")
        await anyio.to_thread.run_sync(self._desk.close)
        await place.instance.end()
        await place.give_back()

    # There ----------------------------------------------------------------------------------------------------------

    async def _load(self, granted: Granted, give_back: Callable[[], Awaitable[None]]) -> Place:
        """Start an instance there and wait until it has answered once."""
        device = granted.devices[0]
        everything = sum(one.total for one in await self._look() if one.kind == device.kind)
        threads = threads_for(device.kind, cores(), granted.bytes, everything)
        context = 0 if device.kind == "slot" else context_of(self._settings, device.kind, device.name).bytes
        provider = provider_for(device, granted.bytes, context, threads)
        instance = StandingInstance.start(self._model, self._paths, granted, provider, self._room(granted, context))
        try:
            loaded = await instance.load(self._job.name)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await instance.end()
            raise
        self._say_loaded(granted, loaded, threads)
        keeping = anyio.CancelScope()

        async def hold() -> None:
            with keeping:
                await keep(granted, lambda text: self._account.put(Note(text)))

        async def leave() -> None:
            keeping.cancel()
            await give_back()

        self._holding.start_soon(hold)
        return Place(granted, instance, leave)

    def _say_loaded(self, granted: Granted, loaded: LoadedModels, threads: int) -> None:
        """What it took beside what was foreseen; the next one of this model claims by that."""
        device = granted.devices[0]
        needed, took = self._handover.foreseen or 0, loaded.took
        words = f"Loaded on {device_words([device.label])} in {format_duration(loaded.seconds)}"
        if took:
            words += f"; it took {format_bytes(took)}, {format_bytes(needed)} were expected"
        if device.kind == "slot":
            words += f"; {threads} thread{'s' if threads > 1 else ''}"
        self._account.put(Note(f"{words}. {self._together(loaded)}".rstrip()))
        if took and not self._model.several:  # of several, it may have been as much as there was room for
            lesson = Lesson(
                key=self._model.key,
                time=self._account.record.since,
                kind=device.kind,
                card=device.name,
                job=self._job.id,
                measured=took,
                estimated=needed,
            )
            try:
                learn(self._settings, lesson)
            except OSError:
                traceback.print_exc()  # on a full disk the next one is foreseen again

    def _together(self, loaded: LoadedModels) -> str:
        """What becomes of the calls, in a sentence for each model where they differ."""
        rows = f"calls are put together, up to {self._model.rows} rows"
        said = {
            name: rows if one.batches else one.remark
            for name, one in zip(self._model.files, loaded.models, strict=True)
        }
        words = [f"{text[:1].upper()}{text[1:].rstrip('.')}." for text in dict.fromkeys(said.values()) if text]
        if len(set(said.values())) > 1:
            words = [f"{name}: {text.rstrip('.')}." for name, text in said.items() if text]
        away = len(loaded.models) - len(loaded.inside)
        if loaded.room and away:
            words.append(f"{format_bytes(loaded.room)} are for weights: they come and go as they are called for.")
        return " ".join(words)

    def _room(self, granted: Granted, context: int) -> int | None:
        """Bytes for weights that come and go."""
        if not self._model.several:
            return None
        taken = models_from_json(self._paths.model.read_text())
        return need_of_several(taken.values(), context).room(granted.bytes)

    async def _switch(self, instance: StandingInstance | None) -> None:
        """Have the desk go on with it, once the one before has nothing more to do."""
        changed = self._desk.change(instance)
        await anyio.to_thread.run_sync(changed.result, abandon_on_cancel=True)

    async def _look(self) -> Sequence[Device]:
        return await read_devices_async(self._settings)

    # Elsewhere ------------------------------------------------------------------------------------------------------

    async def move(self, to: str, moves: anyio.abc.TaskGroup, ending: anyio.Event) -> tuple[int, str]:
        """Claim the device; what follows needs nobody's patience. The number of the move, and the device."""
        assert self.here is not None
        here = self.here.granted
        request = replace(self._request, gpu=self._targets(await self._look(), to, here))
        held = await claim_now(self._lab, request, self._look, here)
        if isinstance(held, Waiting):
            busy = f"{to} is not free right now" if to else "no other device is free right now"
            raise NotNow(self._job.name, f"{busy} ({held}).")

        async def give_back() -> None:
            held.give_back()

        if ending.is_set() or self.moving:
            held.give_back()
            raise LeavesAlready(self._job.name)
        self.moving = True
        self._numbers += 1
        number = self._numbers
        there = _label(held.granted)
        self._account.report(StateChange("moving", f"to {there}", device=_label(here)))
        moves.start_soon(self._go_on_there, held.granted, give_back, number)
        return number, there

    async def _go_on_there(self, granted: Granted, give_back: Callable[[], Awaitable[None]], number: int) -> None:
        """Load there; then change between two batches, and leave where it was."""
        before = self.here
        assert before is not None
        try:
            there = await self._load(granted, give_back)
        except GpufitError as error:
            self.moving = False
            await give_back()
            why = error.why if isinstance(error, CouldNotDeploy) else str(error)
            self._account.put(CouldNotSave(number, why, "move"))
            self._account.report(StateChange("running", device=before.instance.label))
            return
        except BaseException:  # it is to end
            with anyio.CancelScope(shield=True):
                await give_back()
            raise
        with anyio.CancelScope(shield=True):  # of a change half made, the desk would have an instance that is gone
            await self._switch(there.instance)
            self.here = there
            await before.instance.end()
            await before.give_back()
        self.moving = False
        self._account.count_start()
        self._account.report(StateChange("running", device=there.instance.label))

    def _targets(self, devices: Sequence[Device], to: str, here: Granted) -> str:
        """The devices to which it may go, as a request names them."""
        own = {device.uuid for device in here.devices}
        if to:
            found = find_device(devices, to)
            if found.uuid in own:
                raise NotNow(self._job.name, f"it is on {device_words([found.label])} already.")
            return found.uuid
        others = [device.uuid for device in devices if device.uuid not in own and not device.problem]
        if not others:
            raise NotNow(self._job.name, "there is no other device here.")
        return ",".join(others)


def _label(granted: Granted) -> str:
    return ", ".join(device.label for device in granted.devices)
