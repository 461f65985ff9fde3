"""The process of a job that is a deployed model: from the queue to its end. Start reading at `Deployment._life`.

It uses no device itself: an instance does, which it starts with the claim's lock and ends to leave the device. So a
move is a second instance on a second claim, which answers before the first one ends, and this process, whose socket
the callers know, stays.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread

from ..actions.request import request_for
from ..devices.cards import context_of
from ..devices.device import Device, find_device
from ..devices.here import read_devices_async
from ..errors import CouldNotDeploy, GpufitError, LeavesAlready, NotNow, first_of
from ..estimate.reckoning.learned import Lesson, learn
from ..jobs.account import JobAccount
from ..jobs.control import Followers, serve
from ..jobs.events import CouldNotSave, Failure, Note, StateChange
from ..jobs.handover import Handover, receive
from ..jobs.job import Job
from ..jobs.live import CallFigures, Live, Memory, Progress
from ..jobs.paths import JobPaths, calls_path, socket_path
from ..jobs.protocol import Answer, Question
from ..jobs.record import read_record
from ..jobs.state import State
from ..lab import Granted, Lab, Waiting, claim, claim_now, open_lab
from ..lab.holder import keep
from ..models.taken import TakenModel
from ..settings import load_settings
from ..system.runtime import runtime_of
from ..system.trust import check_trusted
from ..units import format_bytes, format_duration
from .desk import Desk
from .instance import allow_many_files
from .providers import provider_for, threads_for
from .session import LoadedModel
from .standing import StandingInstance, cores

EVERY = 1.0  # seconds between two looks at the figures
LAST_WORD = 5.0  # seconds that those who follow have to hear of the end


def main() -> None:
    """Wait for a job, and be its process."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the terminal or session that started it may go
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = socket.socket(fileno=int(sys.argv[1]))
    handover = receive(channel)
    channel.close()
    if handover is None:
        return
    log = os.open(JobPaths(Path(handover.job_root)).log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for standard in (1, 2):
        os.dup2(log, standard)
    os.close(log)
    os.environ.clear()
    os.environ.update(handover.env)
    os.chdir("/")  # it keeps no file system from being unmounted
    allow_many_files()
    Deployment(handover).work()


@dataclass
class _Place:
    """Where the model runs: what is held, and who runs there."""

    granted: Granted
    instance: StandingInstance
    give_back: Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class _End:
    """How it leaves."""

    state: State
    reason: str


class Deployment:
    """Everything this process holds for its job; what a front may ask of it is jobs.control.Controlled."""

    def __init__(self, handover: Handover) -> None:
        self.settings = load_settings()
        self.paths = JobPaths(Path(handover.job_root))
        for path in (self.paths.job, self.paths.model):
            check_trusted(path)
        self.job = Job.from_json(self.paths.job.read_text())
        assert self.job.model is not None
        self.model = self.job.model
        self.handover = handover
        self.taken = TakenModel.from_json(self.paths.model.read_text())
        self.desk = Desk(self.taken.signature, self.model.rows, self.model.waiting, self._instance_died)
        self.account = JobAccount(
            self.paths,
            self.settings.journal_limit,
            replace(read_record(self.paths), kind="model"),
            lambda: self.desk.figures.calls,
            state="queued",
        )
        self._left = anyio.Event()  # one of those who follow
        self._followers = Followers(on_change=lambda: self._left.set())
        self._place: _Place | None = None
        self._moving = False
        self._numbers = 0
        self._end: _End | None = None
        self._lock = handover.lock  # held as long as this process lives

    def work(self) -> None:
        try:
            anyio.run(self._life)
        except BaseException:  # the outermost frame: a defect of ours must not leave a job that looks alive
            traceback.print_exc()
            self.account.end("failed", f"jupyter_gpufit itself failed; see {self.paths.log}")
        self.account.close()

    async def _life(self) -> None:
        self._ending = anyio.Event()
        self._before = anyio.CancelScope()
        self._token = anyio.lowlevel.current_token()
        path, remark = socket_path(self.settings, self.job.id), runtime_of(self.settings).remark
        if remark:
            self.account.put(Note(remark, once=True))
        async with anyio.create_task_group() as group:
            self._group = group
            listening = anyio.Event()
            group.start_soon(lambda: serve(path, self, self._followers, started=listening))
            await listening.wait()
            self.account.reachable(str(path))
            try:
                end = await self._serve()
            except* GpufitError as refused:
                error = first_of(refused)
                self.account.put(Failure(type(error).__name__, str(error), (f"{type(error).__name__}: {error}",)))
                end = _End("failed", str(error))
            self.account.end(end.state, end.reason)
            await self._until_heard()
            group.cancel_scope.cancel()

    async def _serve(self) -> _End:
        """Queue, claim, load, and answer calls until it is to end."""
        self.account.report(StateChange("queued", self.handover.why))
        lab = open_lab(self.settings)
        self.request = request_for(self.job, self.handover.needed)
        if self.handover.gpu:
            self.request = replace(self.request, gpu=self.handover.gpu)
        address = calls_path(self.settings, self.job.id)
        try:
            with self._before:
                self._place = await self._first_place(lab)
            if self._place is not None:
                self.desk.open(address)
                await self._until_end(lab)
        finally:
            with anyio.CancelScope(shield=True):
                address.unlink(missing_ok=True)
                await self._leave()
        assert self._end is not None
        return self._end

    async def _until_end(self, lab: Lab) -> None:
        assert self._place is not None
        await self._switch(self._place.instance)
        self._tell()  # first: whoever sees it run sees how
        self.account.report(StateChange("running", device=self._place.instance.label))
        async with anyio.create_task_group() as group:
            self._moves = group
            group.start_soon(self._tell_often)
            await self._ending.wait()
            group.cancel_scope.cancel()

    async def _leave(self) -> None:
        """Have what waits answered, where it still can be; then leave the device."""
        place, self._place = self._place, None
        if place is None:
            return
        if self._end is not None and self._end.state == "released":
            await self._switch(None)
        else:
            self.desk.give_up("it was stopped")
        await anyio.to_thread.run_sync(self.desk.close)
        await place.instance.end()
        await place.give_back()

    # Places --------------------------------------------------------------------------------------------------------

    async def _first_place(self, lab: Lab) -> _Place:
        """Wait for a device, and load there."""

        def waiting(why: Waiting) -> None:
            self.account.report(StateChange("queued", str(why)))

        held = claim(lab, self.request, self._look, waiting)
        granted = await held.__aenter__()

        async def give_back() -> None:
            await held.__aexit__(None, None, None)

        if granted.remark:
            self.account.put(Note(granted.remark, once=True))
        try:
            self.account.report(StateChange("starting", device=_label(granted)))
            return await self._load(granted, give_back)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await give_back()
            raise

    async def _load(self, granted: Granted, give_back: Callable[[], Awaitable[None]]) -> _Place:
        """Start an instance there and wait until it has answered once."""
        device = granted.devices[0]
        everything = sum(one.total for one in await self._look() if one.kind == device.kind)
        threads = threads_for(device.kind, cores(), granted.bytes, everything)
        context = 0 if device.kind == "slot" else context_of(self.settings, device.kind, device.name).bytes
        provider = provider_for(device, granted.bytes, context, threads)
        instance = StandingInstance.start(self.model, self.paths, granted, provider)
        try:
            loaded = await instance.load(self.job.name)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await instance.end()
            raise
        self._say_loaded(granted, loaded, threads)
        keeping = anyio.CancelScope()

        async def hold() -> None:
            with keeping:
                await keep(granted, lambda text: self.account.put(Note(text)))

        async def leave() -> None:
            keeping.cancel()
            await give_back()

        self._group.start_soon(hold)
        return _Place(granted, instance, leave)

    def _say_loaded(self, granted: Granted, loaded: LoadedModel, threads: int) -> None:
        """What it took beside what was foreseen; the next one of this model claims by that."""
        device = granted.devices[0]
        needed, took = self.handover.foreseen or 0, loaded.took
        words = f"Loaded on {device.label} in {format_duration(loaded.seconds)}"
        if took:
            words += f"; it took {format_bytes(took)}, {format_bytes(needed)} were foreseen"
        if device.kind == "slot":
            words += f"; {threads} thread{'s' if threads > 1 else ''}"
        together = f"calls are put together, up to {self.model.rows} rows" if loaded.batches else loaded.remark
        self.account.put(
            Note(f"{words}. {together[:1].upper()}{together[1:].rstrip('.')}." if together else f"{words}.")
        )
        if took:
            lesson = Lesson(
                key=self.model.key,
                time=self.account.record.since,
                kind=device.kind,
                card=device.name,
                job=self.job.id,
                measured=took,
                estimated=needed,
            )
            try:
                learn(self.settings, lesson)
            except OSError:
                traceback.print_exc()  # on a full disk the next one is foreseen again

    async def _switch(self, instance: StandingInstance | None) -> None:
        """Have the desk go on with it, once the one before has nothing more to do."""
        changed = self.desk.change(instance)
        await anyio.to_thread.run_sync(changed.result, abandon_on_cancel=True)

    async def _look(self) -> Sequence[Device]:
        return await read_devices_async(self.settings)

    # Move ----------------------------------------------------------------------------------------------------------

    async def _move(self, to: str) -> tuple[int, str]:
        """Claim the device; what follows needs nobody's patience. The number of the move, and the device."""
        assert self._place is not None
        here = self._place.granted
        request = replace(self.request, gpu=self._targets(await self._look(), to, here))
        held = await claim_now(open_lab(self.settings), request, self._look, here)
        if isinstance(held, Waiting):
            which = f"{to} is not" if to else "no other device is"
            raise NotNow(self.job.name, f"{which} to be had at once ({held}).")

        async def give_back() -> None:
            held.give_back()

        if self._ending.is_set() or self._moving:
            held.give_back()
            raise LeavesAlready(self.job.name)
        self._moving = True
        self._numbers += 1
        number = self._numbers
        there = _label(held.granted)
        self.account.report(StateChange("moving", f"to {there}", device=_label(here)))
        self._moves.start_soon(self._go_on_there, held.granted, give_back, number)
        return number, there

    async def _go_on_there(self, granted: Granted, give_back: Callable[[], Awaitable[None]], number: int) -> None:
        """Load there; then change between two batches, and leave where it was."""
        before = self._place
        assert before is not None
        there: _Place | None = None
        try:
            there = await self._load(granted, give_back)
            await self._switch(there.instance)
            self._place = there
        except GpufitError as error:
            await give_back()
            why = error.why if isinstance(error, CouldNotDeploy) else str(error)
            self.account.put(CouldNotSave(number, why, "move"))
            self.account.report(StateChange("running", device=before.instance.label))
            return
        except BaseException:  # it is to end
            with anyio.CancelScope(shield=True):
                if there is not None and self._place is not there:
                    await there.instance.end()
                    await there.give_back()
                elif there is None:
                    await give_back()
            raise
        finally:
            self._moving = False
        with anyio.CancelScope(shield=True):
            await before.instance.end()
            await before.give_back()
        self.account.count_start()
        self.account.report(StateChange("running", device=there.instance.label))

    def _targets(self, devices: Sequence[Device], to: str, here: Granted) -> str:
        """The devices to which it may go, as a request names them."""
        own = {device.uuid for device in here.devices}
        if to:
            found = find_device(devices, to)
            if found.uuid in own:
                raise NotNow(self.job.name, f"it is on {found.label} already.")
            return found.uuid
        others = [device.uuid for device in devices if device.uuid not in own and not device.problem]
        if not others:
            raise NotNow(self.job.name, "there is no other device here.")
        return ",".join(others)

    # What happens --------------------------------------------------------------------------------------------------

    def _instance_died(self, instance: StandingInstance) -> None:
        """In the desk's thread."""
        anyio.from_thread.run_sync(self._group.start_soon, self._mourn, instance, token=self._token)

    async def _mourn(self, instance: StandingInstance) -> None:
        how = await instance.end()
        self._finish("failed", f"the process on {instance.label} ended without a word: {how}")

    def _finish(self, state: State, reason: str) -> None:
        """Have it end; what was said first holds."""
        self._end = self._end or _End(state, reason)
        self._ending.set()
        self._before.cancel()

    async def _tell_often(self) -> None:
        while True:
            await anyio.sleep(EVERY)
            self._tell()

    def _tell(self) -> None:
        """How it fares."""
        figures, place = self.desk.figures, self._place
        loaded = place.instance.loaded if place is not None else None
        took = loaded.took if loaded is not None else 0
        memory = Memory(used=took, peak=took, estimate=self.handover.foreseen) if took else None
        per_second = figures.per_second(anyio.current_time())
        progress = Progress(step=figures.calls, per_second=per_second)
        p50, p99 = figures.quantiles() or (None, None)
        calls = CallFigures(
            per_second=per_second, p50=p50, p99=p99, waiting=self.desk.waiting, refused=self.desk.refused
        )
        self.account.far(figures.calls, Live(progress=progress, memory=memory, calls=calls))

    async def _until_heard(self) -> None:
        """A front that follows reads the end in the journal; it is only not cut off in the middle of a word."""
        with anyio.move_on_after(LAST_WORD):
            while self._followers.count:
                self._left = anyio.Event()
                await self._left.wait()

    # What a front may ask: jobs.control.Controlled -----------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return asdict(self.account.record)

    def interrupt(self) -> None:
        self._finish("stopped", "stopped on request")

    def end(self) -> None:
        """At once: the instance ends with this process."""
        self.account.end("stopped", "ended on request")
        os._exit(1)

    def result(self) -> tuple[list[int], list[int]] | None:
        return None

    def collected(self) -> None:
        pass

    def answered(self) -> None:
        pass

    def defect(self, error: Exception) -> None:
        traceback.print_exception(error)

    async def outcome(self) -> dict[str, Any]:
        await self._ending.wait()
        return {}

    async def ask(self, verb: Question, to: str) -> Answer:
        """Have it leave or go elsewhere: what will happen, or why not."""
        record, name = self.account.record, self.job.name
        if verb == "dismiss":
            return Answer(False, "it is not suspended")
        if why := record.why_not(verb):
            return Answer(False, why)
        if self._ending.is_set() or (self._moving and verb == "move"):
            return Answer(False, str(LeavesAlready(name)), {"leaves": True})
        data: dict[str, Any] = {"epoch": record.epoch, "after": self.account.journal.seq}
        try:
            if verb == "move":
                number, there = await self._move(to)
                words = f"{name} is loaded on {there}, and moves there as soon as it can answer."
                return Answer(True, words, {**data, "number": number})
        except (GpufitError, OSError) as error:
            leaves = {"leaves": True} if isinstance(error, LeavesAlready) else {}
            return Answer(False, error.why if isinstance(error, NotNow) else str(error), leaves)
        self.desk.leave(f"it is released. To have it back: %gpufit resume {name}")
        self._finish("released", f"released after {self.desk.figures.calls:,} calls; `%gpufit resume {name}` goes on")
        return Answer(True, f"{name} answers what waits, and leaves its device.", data)


def _label(granted: Granted) -> str:
    return ", ".join(device.label for device in granted.devices)
