"""Having models answer calls: taken, copied into a job of their own, estimated, and started like a training.

The job has the files' bytes, not their path: what becomes of the path later changes neither the model nor a resume.
"""

from __future__ import annotations

import argparse
import os
import shutil
import threading
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import xxhash

from ..devices.cards import context_of
from ..devices.device import Device
from ..devices.here import read_devices_async
from ..engine import WaitingWorker, environment_of
from ..errors import BadOption, CouldNotDeploy, NotResumable, StorageError, WorkerDied
from ..estimate.reckoning.learned import lessons
from ..jobs.events import Failure, Note, StateChange
from ..jobs.handover import noted_start
from ..jobs.job import Deployed, Job, Options, new_job_id
from ..jobs.journal import JournalReader, last_seq
from ..jobs.names import check_free, free_name
from ..jobs.paths import JobPaths
from ..jobs.record import read_record
from ..jobs.state import LEFT, in_words
from ..jobs.store import create_job_files
from ..jobs.watch import changes
from ..lab.place import candidates, refuse_impossible
from ..models.asking import take_apart, take_weights_out_apart
from ..models.need import RUNTIME, ModelNeed, claimed, need_of_several
from ..models.packages import check_packages
from ..models.taken import TakenModel, models_from_json, models_to_json
from ..settings import Settings
from ..system.background import aside
from ..system.files import sync_directory, write_durably
from ..system.version import version
from ..units import MiB, format_bytes, where_words
from .request import request_for
from .resume import chosen, gone, resume

CHUNK = 8 * MiB
STARTING = 90.0  # seconds that a process may take to begin on a busy machine
IN_THE_QUEUE = 2.0  # seconds after which nobody is kept waiting who does not want to


@dataclass(frozen=True, kw_only=True)
class ModelOrigin:
    """Where a model comes from, and who is to know."""

    path: Path
    words: str  # what the user named
    name: str  # what it is to be called, if nothing else is said
    notebook: str = ""
    kernel_id: str = ""


@dataclass(frozen=True, kw_only=True)
class Claims:
    """What is claimed for it, and why."""

    needed: int | None  # bytes; None: the whole device
    foreseen: int | None
    why: str


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A model that is a job now, and does not run yet."""

    job: Job
    paths: JobPaths
    taken: Mapping[str, TakenModel]
    claims: Claims

    @property
    def words(self) -> str:
        if len(self.taken) == 1:
            [one] = self.taken.values()
            return f"{self.job.name}: {one.signature.words}. It {self.claims.why}."
        lines = [f"{self.job.name}.{name}: {one.signature.words}" for name, one in self.taken.items()]
        return "\n".join([*lines, f"{self.job.name} {self.claims.why}."])


async def deploy(settings: Settings, options: argparse.Namespace) -> AsyncIterator[str]:
    """The file that the options name, as from a terminal: until it runs, or waits."""
    prepared = await prepare(settings, options, files_of(options))
    begin(prepared)
    yield prepared.words
    async for word in how_it_goes(prepared.job, prepared.paths, 0, IN_THE_QUEUE):
        yield word
    yield f"To call it: net = %gpufit attach {prepared.job.name} in a notebook; over HTTP: gpufit serve"


def files_of(options: argparse.Namespace) -> list[ModelOrigin]:
    """The models' files; a variable's name has a meaning in a notebook only."""
    for option in ("example", "weights"):
        if getattr(options, option):
            raise BadOption(f"--{option} goes with one module of a notebook: net = %gpufit deploy model --example x")
    found: dict[str, ModelOrigin] = {}
    for word in options.models:
        path = Path(word).expanduser()
        if not path.exists() and word.isidentifier():
            raise BadOption(
                f"There is no file {word!r}. A torch module is deployed from its notebook:"
                f" net = %gpufit deploy {word} --example x"
            )
        if path.stem in found:
            raise BadOption(f"{found[path.stem].words} and {word} would both be called {path.stem}. Rename one file.")
        found[path.stem] = ModelOrigin(path=path, words=str(path), name=path.stem)
    return list(found.values())


async def prepare(settings: Settings, options: argparse.Namespace, origins: Sequence[ModelOrigin]) -> Prepared:
    """Take them and make them a job; refuse what could never run. Nothing is started."""
    if options.name:
        check_free(settings, options.name)
    sizes = dict(options.dim)
    found = await aside(lambda: take_apart([one.path for one in origins], options.rows, sizes))
    taken = {one.name: model for one, model in zip(origins, found, strict=True)}
    if unknown := sorted(sizes.keys() - _dimensions(taken)):
        known = ", ".join(sorted(_dimensions(taken))) or "none"
        raise BadOption(f"The model has no dimension {unknown[0]!r}; its named ones: {known}.")
    devices = await read_devices_async(settings)
    check_packages(gpu=all(device.kind != "slot" for device in devices))
    several = len(origins) > 1
    job = Job(
        id=new_job_id(),
        name=options.name or free_name(settings, "models" if several else origins[0].name),
        source="",
        options=Options(gpu=options.gpu, memory=options.memory, exclusive=options.exclusive),
        created=time.time(),
        cwd=os.getcwd(),
        notebook=origins[0].notebook,
        kernel_id=origins[0].kernel_id,
        version=version(),
        model=Deployed(
            files={one.name: one.name if several else one.path.name for one in origins},
            origin=" ".join(one.words for one in origins),
            rows=options.rows,
            waiting=options.waiting,
            key="" if several else await aside(lambda: _key(origins[0].path, found[0])),
            sizes=sizes,
            deadline=options.deadline,
        ),
    )
    claims = claims_of(settings, job, taken, devices, options.memory)
    refuse_impossible(request_for(job, claims.needed), devices)
    paths = create_job_files(settings, job)
    try:
        if several:
            await aside(lambda: _take_apart(origins, paths))
        else:
            await aside(lambda: _copy(origins[0].path, found[0], paths))
        write_durably(paths.model, models_to_json(taken))
    except BaseException as error:
        shutil.rmtree(paths.root, ignore_errors=True)
        if isinstance(error, OSError):
            raise StorageError(str(paths.root), error.strerror or str(error), "GPUFIT_DATA") from error
        raise
    return Prepared(job=job, paths=paths, taken=taken, claims=claims)


def _dimensions(taken: Mapping[str, TakenModel]) -> set[str]:
    return {
        dim
        for one in taken.values()
        for slot in one.signature.inputs
        for dim in slot.shape or ()
        if isinstance(dim, str) and dim
    }


def claims_of(
    settings: Settings, job: Job, taken: Mapping[str, TakenModel], devices: Iterable[Device], asked: int | None
) -> Claims:
    """What it will claim: what its user says, what it took before, or what is foreseen."""
    assert job.model is not None
    here = candidates(request_for(job, None), list(devices))
    contexts = [context_of(settings, device.kind, device.name).bytes for device in here if device.kind != "slot"]
    if job.model.several:
        return _of_several(taken, here, max(contexts, default=0), asked)
    [one] = taken.values()
    if one.activations is None:
        less = f"to claim less: --dim {one.open[0]}=512, or --memory"
        whole = f"claims a whole device, since {', '.join(one.open)} may be of any size ({less})"
        return Claims(needed=asked, foreseen=None, why=_asked(asked) if asked is not None else whole)
    need = ModelNeed(
        weights=one.weights,
        # While it is loaded; on a GPU that happens in the host's memory.
        file=0 if contexts else one.file + (one.weights if one.files else 0),
        activations=one.activations,
        runtime=max(contexts, default=RUNTIME),
        unknown=one.unknown,
    )
    if asked is not None:
        return Claims(needed=asked, foreseen=need.total, why=_asked(asked))
    kinds = {device.kind for device in here}
    before = [lesson.measured for lesson in lessons(settings, job.model.key) if lesson.kind in kinds]
    found = claimed(need, before)
    return Claims(needed=found.memory, foreseen=need.total, why=found.reason)


def _of_several(taken: Mapping[str, TakenModel], here: Sequence[Device], context: int, asked: int | None) -> Claims:
    """Room for all of them, or, where no device has that, a whole device; but for the largest one at least."""
    for name, one in taken.items():
        if one.activations is None:
            raise BadOption(
                f"{', '.join(one.open)} of {name} may be of any size, and its room is shared."
                f" Name the largest size: --dim {one.open[0]}=512"
            )
    need = need_of_several(taken.values(), context)
    if asked is not None:
        if asked < need.least:
            raise BadOption(
                f"--memory {format_bytes(asked)} is too little for the largest of them. It takes"
                f" {format_bytes(max(need.weights))}, and {format_bytes(need.fixed)} more to run. Ask for"
                f" {-(-need.least // MiB)} MiB."
            )
        return Claims(needed=asked, foreseen=need.total, why=f"{_asked(asked)}: {need.words}")
    if any(device.total >= need.total for device in here):
        return Claims(needed=need.total, foreseen=need.total, why=f"claims {format_bytes(need.total)}: {need.words}")
    if any(device.total >= need.least for device in here):
        return Claims(needed=None, foreseen=need.total, why=f"claims a whole device, and needs more: {need.words}")
    return Claims(needed=need.least, foreseen=need.total, why="does not fit")  # and is refused with the figures


def _asked(memory: int) -> str:
    return f"claims {format_bytes(memory)}, as --memory says"


def _key(path: Path, taken: TakenModel) -> str:
    """Of the bytes, and of how many rows are run at once: the same takes the same."""
    summed = xxhash.xxh3_128(f"{taken.rows} {taken.activations} {taken.signature.words}".encode())
    for one in (path, *(path.parent / name for name in taken.files)):
        with open(one, "rb") as file:
            while part := file.read(CHUNK):
                summed.update(part)
    return f"model-{summed.hexdigest()}"


def _copy(path: Path, taken: TakenModel, paths: JobPaths) -> None:
    for name in (path.name, *taken.files):
        target = paths.input / name
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copyfile(path.parent / name, target)
        with open(target, "rb") as file:
            os.fsync(file.fileno())
        sync_directory(target.parent)


def _take_apart(origins: Sequence[ModelOrigin], paths: JobPaths) -> None:
    """Of several models, the job has their shells and weights."""
    folders = {one.path.absolute(): paths.input / one.name for one in origins}
    for folder in folders.values():
        folder.mkdir(mode=0o700)
    take_weights_out_apart(folders)
    for folder in folders.values():
        for file in folder.iterdir():
            with open(file, "rb") as written:
                os.fsync(written.fileno())
        sync_directory(folder)


def begin(prepared: Prepared) -> None:
    """Start its process; from here on it is a job like any other."""
    claims = prepared.claims
    waiting = WaitingWorker.spawn(os.environ, kind="model")
    try:
        started = waiting.give(
            prepared.job, prepared.paths, needed=claims.needed, foreseen=claims.foreseen, why=claims.why
        )
    except BaseException:
        waiting.dismiss()
        raise
    threading.Thread(target=started.reap, name=f"gpufit-reap-{prepared.job.name}", daemon=True).start()


async def how_it_goes(job: Job, paths: JobPaths, seq: int, patience: float) -> AsyncIterator[str]:
    """What its process says until it answers calls; in the queue, for so many seconds at most."""
    reader, queued = JournalReader(paths.journal, seq), ""
    try:
        with anyio.CancelScope(deadline=anyio.current_time() + STARTING) as scope:
            async with changes(paths) as looks:
                async for record in looks:
                    for entry in reader.read():
                        match entry.event:
                            case StateChange("queued", reason):
                                if queued and reason != queued:
                                    yield f"{job.name} waits: {reason}"
                                queued = reason
                                scope.deadline = anyio.current_time() + patience
                            case StateChange("starting"):
                                scope.deadline = float("inf")  # a large model takes its time
                            case Note(text):
                                yield text
                            case StateChange("running", _, device):
                                yield f"{job.name} answers on {where_words(device)}."
                                return
                            case Failure(_, why):
                                raise CouldNotDeploy(job.name, why.removeprefix(str(CouldNotDeploy(job.name, ""))))
                            case StateChange(state, reason) if state in LEFT:
                                yield f"{job.name} {in_words(state)}: {reason}"
                                return
                    if record.state == "lost":
                        raise WorkerDied(job.name, f"ended unexpectedly at its start (see {paths.log}).")
    finally:
        reader.close()
    yield f"{job.name} waits: {queued or 'its process is starting'}. `gpufit status` says more."


async def resume_any(
    settings: Settings,
    wanted: str,
    gpu: str = "",
    memory: int | None = None,
    gpus: tuple[int, int] | None = None,
    back: str = "",
) -> AsyncIterator[str]:
    """Go on with a job that can be resumed: a training from its checkpoint, a model from its file."""
    job, paths = chosen(settings, wanted)
    if job.kind == "model":
        if back:
            raise BadOption(f"{job.name} is a model, which has no steps: leave --from out.")
        steps = _again(settings, job, paths, gpu, memory)
    else:
        steps = resume(settings, wanted, gpu, memory, gpus, back)
    async for word in steps:
        yield word


async def _again(settings: Settings, job: Job, paths: JobPaths, gpu: str, memory: int | None) -> AsyncIterator[str]:
    record = read_record(paths)
    if why := record.why_not("resume"):
        raise NotResumable(job.name, f"{why} To call it: net = %gpufit attach {job.name}")
    if record.state != "lost":
        await gone(record)
    try:
        start, taken = noted_start(paths), models_from_json(paths.model.read_text())
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NotResumable(job.name, f"its files cannot be read ({error}). Deploy it again.") from error
    devices = await read_devices_async(settings)
    there = replace(job, options=replace(job.options, gpu=gpu or job.options.gpu))
    asked = memory if memory is not None else job.options.memory
    claims = claims_of(settings, there, taken, devices, asked)
    refuse_impossible(request_for(there, claims.needed), devices)
    start = replace(start, gpu=gpu, needed=claims.needed, foreseen=claims.foreseen, why=claims.why)
    seq = last_seq(paths.journal)
    waiting = WaitingWorker.spawn(environment_of(start), start.python, kind="model", package=start.package)
    try:
        started = waiting.give_again(job, paths, start)
    except BaseException:
        waiting.dismiss()
        raise
    threading.Thread(target=started.reap, name=f"gpufit-reap-{job.name}", daemon=True).start()
    yield f"{job.name} comes back from its file. It {claims.why}."
    async for word in how_it_goes(job, paths, seq, IN_THE_QUEUE):
        yield word
