"""Every verb in every moment of a job's life, also two at once: an answer that is true, and a state that is meant.

Real workers, and the very functions that magic, command line and panel call. What the table of verbs says is what
happens. Of two at once either may come first: `meant` says which states a pair may leave, and a training that nobody
killed is never lost.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import combinations_with_replacement
from pathlib import Path

import anyio
import pytest

from jupyter_gpufit.actions.ask import asked
from jupyter_gpufit.actions.clean import clean
from jupyter_gpufit.actions.release import release
from jupyter_gpufit.actions.resume import resume
from jupyter_gpufit.actions.stop import stop
from jupyter_gpufit.devices.here import read_devices_async
from jupyter_gpufit.engine.local import WaitingWorker
from jupyter_gpufit.errors import GpufitError
from jupyter_gpufit.graph import ship
from jupyter_gpufit.jobs import verbs
from jupyter_gpufit.jobs.job import Job, Options, new_job_id
from jupyter_gpufit.jobs.paths import JobPaths
from jupyter_gpufit.jobs.record import LastCheckpoint, Record, read_record, write_record
from jupyter_gpufit.jobs.state import OVER, State, in_words
from jupyter_gpufit.jobs.store import create_job_files
from jupyter_gpufit.jobs.watch import changes
from jupyter_gpufit.lab import Request, claim, open_lab
from jupyter_gpufit.notebook.variables import write_graph
from jupyter_gpufit.settings import Settings, load_settings
from tests.kernels import TIMEOUT, environment
from tests.nursery import Nursery

pytestmark = pytest.mark.slow

VERBS = (*verbs.VERBS, "clean")
DEAD = tuple(sorted(OVER))
REFUSED = ("NotNow", "NotResumable", "HasEnded")

LOOP = "import os, time\nwhile not os.path.exists({go!r}):\n    open({begun!r}, 'w').close(); time.sleep(0.01)\n"
NO_SAFE_POINT = (
    "import os, time\ndef wait(n):\n    while not os.path.exists({go!r}): time.sleep(0.01)\n"
    "found = [wait(n) for n in range(1)]\n"
)


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    home = Path(tempfile.mkdtemp(prefix="gpufit"))  # a socket's path is short
    env = environment(home, GPUFIT_ESTIMATE_LIMIT="0", GPUFIT_STOP_PATIENCE="20", GPUFIT_DEVICES="cpu:2x2GiB")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in env.items():
            patch.setenv(name, value)
        nursery = Nursery.open(env, home)
        patch.setattr(WaitingWorker, "spawn", nursery.spawn)
        try:
            yield nursery
        finally:
            nursery.close()
            shutil.rmtree(home)


@dataclass
class Life:
    """One job, and where it is told to go on."""

    job: Job
    paths: JobPaths
    settings: Settings
    nursery: Nursery
    go: Path

    @property
    def record(self) -> Record:
        return read_record(self.paths)

    async def until(self, reached: Callable[[Record], bool]) -> Record:
        async with changes(self.paths) as looks:
            async for record in looks:
                if reached(record):
                    return record
        raise AssertionError

    async def do(self, verb: str) -> str:
        """The verb's last words; a refusal begins with its kind."""
        try:
            words = [word async for word in self._steps(verb)]
        except GpufitError as error:
            return f"{type(error).__name__}: {error}"
        return words[-1]

    def _steps(self, verb: str) -> AsyncIterator[str]:
        match verb:
            case "checkpoint" | "move":
                return asked(self.job, self.paths, verb)
            case "release":
                return release(self.settings, self.job.id, insist=False)
            case "resume":
                return resume(self.settings, self.job.id)
            case "stop":
                return stop(self.job, self.paths, self.settings.stop_patience)
        return self._clean()

    async def _clean(self) -> AsyncIterator[str]:
        for word in await anyio.to_thread.run_sync(lambda: list(clean(self.settings, [self.job.id]))):
            yield word

    def end(self) -> None:
        self.nursery.hold.touch()
        worker = self.record.worker
        if worker is not None:
            worker.signal(signal.SIGKILL)
        for file in (self.nursery.hold, self.nursery.begun, self.go):
            file.unlink(missing_ok=True)


def new_life(nursery: Nursery, cell: str, gpu: str = "") -> Life:
    settings, id = load_settings(), new_job_id()
    go = nursery.hold.with_name(f"go-{id}")
    source = cell.format(go=str(go), begun=f"{go}.begun")
    job = Job(id=id, name=id, source=source, created=time.time(), cwd="/", options=Options(gpu=gpu))
    return Life(job, create_job_files(settings, job), settings, nursery, go)


@asynccontextmanager
async def living(nursery: Nursery, cell: str = LOOP, gpu: str = "") -> AsyncIterator[Life]:
    """A job whose worker has begun."""
    life = new_life(nursery, cell, gpu)
    shipment = ship([], {})
    write_graph(life.paths, shipment)
    nursery.spawn(os.environ).give(life.job, life.paths, shipment.memory.fds, 1)
    try:
        with anyio.fail_after(TIMEOUT):
            yield life
    finally:
        life.end()


async def exists(file: Path) -> None:
    while not file.exists():  # noqa: ASYNC110, ASYNC240 - made by a cell, or by a process that begins
        await anyio.sleep(0.01)


# Moments --------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def queued(nursery: Nursery) -> AsyncIterator[Life]:
    lab = open_lab(load_settings())

    async def look() -> object:
        return await read_devices_async(load_settings())

    request = Request(job_id="holder", name="holder", exclusive=True, gpu="cpu:0")
    async with claim(lab, request, look):  # type: ignore[arg-type]
        async with living(nursery, gpu="cpu:0") as life:
            await life.until(lambda record: record.state == "queued" and bool(record.socket))
            yield life


@asynccontextmanager
async def running(nursery: Nursery, *, hold: bool = False) -> AsyncIterator[Life]:
    if not hold:
        nursery.hold.touch()
    async with living(nursery) as life:
        await exists(Path(f"{life.go}.begun"))
        yield life


@asynccontextmanager
async def about_to(nursery: Nursery, verb: str) -> AsyncIterator[Life]:
    """Asked for something that waits for its safe point."""
    nursery.hold.touch()
    async with living(nursery, NO_SAFE_POINT) as life:
        await life.until(lambda record: record.state == "running" and bool(record.socket))
        async with anyio.create_task_group() as group:
            group.start_soon(life.do, verb)
            await life.until(lambda record: record.state in ("saving", "moving"))
            yield life
            group.cancel_scope.cancel()


@asynccontextmanager
async def between_two_images(nursery: Nursery) -> AsyncIterator[Life]:
    """Saved, and holding the device on which it goes on, while nobody is there who could listen."""
    async with running(nursery, hold=True) as life:
        async with anyio.create_task_group() as group:
            group.start_soon(life.do, "move")
            await exists(nursery.begun)
            yield life
            group.cancel_scope.cancel()


MOMENTS = {
    "queued": queued,
    "running": running,
    "saving": lambda nursery: about_to(nursery, "checkpoint"),
    "about to leave": lambda nursery: about_to(nursery, "release"),
    "about to move": lambda nursery: about_to(nursery, "move"),
    "between two images": between_two_images,
}
STATES: dict[str, State] = {  # as the fronts read them; between two images it may run by the time the verb looks
    "queued": "queued",
    "running": "running",
    "saving": "saving",
    "about to leave": "saving",
    "about to move": "moving",
}
LEAVES = ("about to leave", "about to move", "between two images")


def meant(moment: str, verbs: tuple[str, ...]) -> set[State]:
    """The states in which these verbs may leave a job of this moment."""
    left: set[State] = set()
    if "stop" in verbs:
        left |= {"stopped"}
    if moment != "queued" and ("release" in verbs or moment == "about to leave"):
        left |= {"released"}
    if not left or ("resume" in verbs and left):
        left |= {"queued"} if moment == "queued" else {"running"}
    return left


async def settled(life: Life, wanted: set[State]) -> State:
    with anyio.move_on_after(TIMEOUT):
        return (await life.until(lambda record: record.state in wanted and record.state != "lost")).state
    return life.record.state


async def all_told(life: Life, moment: str, verbs: tuple[str, ...]) -> dict[int, str]:
    """What each answers, asked in the same moment; the job is let go on once all are asked."""
    said: dict[int, str] = {}

    async def ask(number: int, verb: str) -> None:
        said[number] = await life.do(verb)

    async with anyio.create_task_group() as group:
        for number, verb in enumerate(verbs):
            group.start_soon(ask, number, verb)
        if moment == "between two images":
            await anyio.sleep(0.2)  # not waited for: each moment until the new image listens is one of the test's
            life.nursery.hold.touch()
        elif moment in ("saving", "about to leave", "about to move") and "stop" not in verbs:
            await anyio.sleep(0.2)
            life.go.touch()
    return said


@dataclass(frozen=True)
class Outcome:
    """What has become of a job of which so much was asked at once."""

    moment: str
    record: Record
    gone: bool  # cleaned

    @property
    def over(self) -> bool:
        return self.gone or self.record.state in OVER

    def leaves(self, others: tuple[str, ...]) -> bool:
        return self.moment in LEAVES or bool({"release", "move"} & {*others})

    def may_have_ended(self, others: tuple[str, ...]) -> bool:
        """After something was answered."""
        return self.record.state == "done" or self.moment == "about to leave" or bool({"stop", "release"} & {*others})


def is_true(verb: str, words: str, others: tuple[str, ...], found: Outcome) -> bool:
    """Whether the answer says what has become of the job; what nobody foresaw is not true."""
    match words.partition(":")[0]:
        case "NotNow":  # "goes on as it was", and may have come to its end by now
            return not found.over or found.may_have_ended(others)
        case "NotResumable":
            return "cannot be resumed: it is " in words and (not found.over or found.may_have_ended(others))
        case "EndedFirst" | "HasEnded":
            return found.over or "resume" in others
        case "LeavesAlready":
            return found.leaves(others)
        case "JobBusy":
            return verb == "clean" and not found.gone
        case "NoSuchJob":
            return found.gone and "clean" in others
    return says(verb, words, others, found)


def says(verb: str, words: str, others: tuple[str, ...], found: Outcome) -> bool:
    """The same of an answer that is no refusal."""
    record, end = found.record, found.over or "resume" in others
    match verb:
        case "checkpoint":
            saved = re.search(r" is saved at step ([0-9,]+) ", words)
            there = record.checkpoint
            return saved is not None and there is not None and int(saved[1].replace(",", "")) <= there.step
        case "release":
            return " is released at step " in words and record.checkpoint is not None and end
        case "move":
            where = re.search(r" runs on (\S+)\.$", words)
            return where is not None and (record.state != "running" or record.device == where[1])
        case "resume":
            left = bool({"stop", "release"} & {*others}) or found.moment == "about to leave"
            return left and (" runs on " in words or " waits: " in words)
        case "stop":
            return "ended" in words and end
        case "clean":
            return found.gone
    return False


async def lived(nursery: Nursery, moment: str, verbs: tuple[str, ...]) -> list[str]:
    """What each said."""
    async with MOMENTS[moment](nursery) as life:
        said = await all_told(life, moment, verbs)
        cleaned = not life.paths.root.exists()
        if cleaned:
            assert "clean" in verbs and set(verbs) & {"stop", "release"}, said
            return [*said.values()]
        wanted = meant(moment, verbs)
        if moment in (*LEAVES, "saving"):
            wanted |= {"done", "running"}  # it is let go on
        state = await settled(life, wanted)
        assert state in wanted, (said, life.record)
        found = Outcome(moment, life.record, cleaned)
        for number, verb in enumerate(verbs):
            others = verbs[:number] + verbs[number + 1 :]
            assert is_true(verb, said[number], others, found), (verb, said, found)
        return [*said.values()]


def each_time(moment: str, verb: str) -> bool:
    """Each moment and each verb twice or more; all pairs with `make soak`."""
    return moment in ("queued", "running") or (list(MOMENTS).index(moment) + VERBS.index(verb)) % 3 == 0


@pytest.mark.parametrize(
    ("moment", "verb"),
    [
        pytest.param(moment, verb, marks=() if each_time(moment, verb) else pytest.mark.soak)
        for moment in MOMENTS
        for verb in VERBS
    ],
)
def test_each_verb_in_each_moment(nursery: Nursery, moment: str, verb: str) -> None:
    [said] = anyio.run(lived, nursery, moment, (verb,))
    if moment in STATES and verb in verbs.VERBS and not is_meant(verb, STATES[moment], saved=False):
        assert said.startswith(REFUSED), said
    elif moment in ("queued", "running"):  # and nothing else is under way
        assert verb == "clean" or not said.startswith(REFUSED), said


def is_meant(verb: str, state: State, *, saved: bool) -> bool:
    return verbs.may(verb, state, saved=saved)  # type: ignore[arg-type]


PAIRS = list(combinations_with_replacement(VERBS, 2))


def each_time_two(moment: str, pair: tuple[str, str]) -> bool:
    """All of them in the queue, of the others some: they take a second each."""
    some = PAIRS.index(pair) % 10 == list(MOMENTS).index(moment)
    return moment == "queued" or (some and moment in ("saving", "about to leave", "about to move"))


@pytest.mark.parametrize(
    ("moment", "verbs"),
    [
        pytest.param(
            moment,
            pair,
            marks=() if each_time_two(moment, pair) else pytest.mark.soak,
            id=f"{moment}-{' and '.join(pair)}",
        )
        for moment in MOMENTS
        for pair in PAIRS
    ],
)
def test_each_two_verbs_at_once(nursery: Nursery, moment: str, verbs: tuple[str, str]) -> None:
    anyio.run(lived, nursery, moment, verbs)


@pytest.mark.parametrize("pair", PAIRS, ids=" and ".join)
@pytest.mark.parametrize("state", DEAD)
def test_each_two_verbs_on_a_job_that_does_not_run(nursery: Nursery, state: State, pair: tuple[str, str]) -> None:
    life = new_life(nursery, LOOP)
    checkpoint = LastCheckpoint(3, 0.0, 1)
    write_record(life.paths, Record(state=state if state != "lost" else "running", since=0.0, checkpoint=checkpoint))
    said = dict[str, str]()

    async def both() -> None:
        async def ask(verb: str) -> None:
            said[verb] = await life.do(verb)

        async with anyio.create_task_group() as group:
            for verb in pair:
                group.start_soon(ask, verb)

    anyio.run(both)
    for verb in {*pair} - {"clean"}:
        kinds = ("HasEnded", "NotResumable", *(("NoSuchJob",) if "clean" in pair else ()))
        assert said[verb].startswith((*kinds, life.job.name)), said
    if "clean" in pair:
        assert not life.paths.root.exists()
    else:
        assert life.record.state == state


@pytest.mark.parametrize("saved", [False, True], ids=["unsaved", "saved"])
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("state", DEAD)
def test_each_verb_on_a_job_that_does_not_run(nursery: Nursery, state: State, verb: str, saved: bool) -> None:
    life = new_life(nursery, LOOP)
    checkpoint = LastCheckpoint(3, 0.0, 1) if saved else None
    write_record(life.paths, Record(state=state if state != "lost" else "running", since=0.0, checkpoint=checkpoint))
    said = anyio.run(life.do, verb)
    kind = said.partition(":")[0]
    match verb:
        case "stop":
            assert said == f"{life.job.name} has ended already ({state})."
        case "clean":
            assert "removed" in said and not life.paths.root.exists()
            return
        case "release":
            assert said == f"{life.job.name} holds no device: it {in_words(state)}."
        case "resume":
            assert kind == "NotResumable"  # there is no start.json; without a checkpoint, it says so first
            assert ("no checkpoint" in said or "has ended well" in said) == (not saved or state == "done")
        case _:
            assert kind == "HasEnded" and in_words(state) in said
    assert life.record.state == state
    if verb != "resume":
        assert not is_meant(verb, state, saved=saved)
