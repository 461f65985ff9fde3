"""Starting workers: the front's side of the handover."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import IO, Protocol

from ..errors import NotResumable, StorageError, WorkerDied
from ..jobs.handover import Handover, note_start, send
from ..jobs.job import Job, JobKind
from ..jobs.paths import JobPaths
from ..jobs.record import LastCheckpoint, begin, read_left, take_lock, write_record
from ..jobs.state import in_words
from ..system import processes
from ..system.files import nameless
from ..system.processes import of_a_worker

SOON = 2.0  # seconds from the end of a process' locks to the end of the process
_MODULES: Mapping[JobKind, str] = {"training": "worker", "model": "deploy"}


class WorkerProcess(Protocol):
    """Of a worker: a child of this process, or of our spare."""

    pid: int

    def wait(self, timeout: float | None = None) -> int | None: ...
    def terminate(self) -> None: ...


@dataclass
class Started:
    """A worker process of ours."""

    process: WorkerProcess
    log: IO[bytes]  # what it wrote before it had a job

    def exit_code(self) -> int | None:
        """How it ended, which only its parent can know; None while it lives.

        Asked when its lock is free, a moment before the system has an answer.
        """
        try:
            return self.process.wait(SOON)
        except subprocess.TimeoutExpired:
            return None

    def reap(self) -> None:
        """Wait for its end and give back what it took of this process; no zombie, no open file stays."""
        self.process.wait()
        self.log.close()

    def early_words(self) -> str:
        """The end of what it said before it had a job: why it could not start."""
        self.log.seek(0)
        return self.log.read().decode(errors="replace").strip()[-2000:]


@dataclass
class WaitingWorker:
    """A worker that waits for its job; it ends by itself when this end of the channel closes."""

    started: Started
    channel: socket.socket

    @classmethod
    def spawn(
        cls, env: Mapping[str, str], python: str = sys.executable, kind: JobKind = "training", package: str = ""
    ) -> WaitingWorker:
        """Start a worker."""
        ours, theirs = socket.socketpair()
        log = nameless()
        with theirs:
            return cls(Started(begin_process(theirs, log, env, python, kind, package=package), log), ours)

    def give(
        self,
        job: Job,
        paths: JobPaths,
        memory: Sequence[int] = (),
        cell_number: int = 0,
        *,
        needed: int | None = None,
        foreseen: int | None = None,
        why: str = "",
    ) -> Started:
        """Hand a new job over; from here on the worker holds its lock. What a model needs is known before it starts."""
        handover = Handover(
            job_root=str(paths.root),
            cwd=job.cwd,
            path=sys.path,
            argv=[one for one in sys.argv if isinstance(one, str)],
            env=dict(os.environ),
            package=processes.PACKAGE,
            cell_number=cell_number,
            needed=needed,
            foreseen=foreseen,
            why=why,
        )
        with _taking(job, paths) as lock:
            note_start(paths, handover)
            begin(paths, job.kind)
        return self._send(job, replace(handover, lock=lock, memory=list(memory)))

    def give_again(
        self, job: Job, paths: JobPaths, start: Handover, back: Callable[[], LastCheckpoint] | None = None
    ) -> Started:
        """Hand over a job that has a checkpoint; raise NotResumable where somebody has it.

        `back` is called once nobody else can have the job, and makes an earlier checkpoint the newest.
        """
        with _taking(job, paths) as lock:
            before = read_left(paths)
            if not before.resumable:  # two resumes were prepared at once, and the other one's job is over by now
                raise NotResumable(
                    job.name, f"it {in_words(before.state)} by now. What it did: %gpufit attach {job.name}"
                )
            # Noted until a worker has gone on: a second try must not take the first one's end for the training's.
            repeats = before.state != "released" or back is not None
            start = replace(start, alive_until=start.alive_until or (_alive_until(paths) if repeats else 0.0))
            if back is not None:
                before = replace(before, checkpoint=back())
            note_start(paths, replace(start, gpu="", gpus=None))  # another device is for this time
            # Until the worker says how it fares, so that one that dies before it can is seen to be lost.
            write_record(paths, replace(before, state="starting", since=time.time(), reason="", worker=None, socket=""))
        again = replace(start, env=environment_of(start), resumes=True, repeats=repeats, lock=lock)
        return self._send(job, again)

    def _send(self, job: Job, handover: Handover) -> Started:
        try:
            send(self.channel, handover)
        except OSError as error:
            raise WorkerDied(job.name, f"could not start: {self.started.early_words() or error}.") from error
        finally:
            os.close(handover.lock)
            self.channel.close()
        return self.started

    def dismiss(self) -> None:
        """End it; it has no job, and may be in the middle of an import that would keep us waiting."""
        self.channel.close()
        self.started.process.terminate()
        self.started.reap()


def begin_process(
    channel: socket.socket,
    log: IO[bytes],
    env: Mapping[str, str],
    python: str = sys.executable,
    kind: JobKind = "training",
    arguments: Sequence[str] = (),
    package: str = "",
) -> subprocess.Popen[bytes]:
    """A process in a session of its own, so that no signal to the kernel's group reaches it."""
    return processes.start(
        *(_MODULES[kind], *arguments, str(channel.fileno())),
        python=python,
        package=package,
        env=of_a_worker(env),
        descriptors=[channel.fileno()],
        stdout=log,
        stderr=log,
        own_session=True,
        finds_the_notebooks=kind == "training",
    )


@contextmanager
def _taking(job: Job, paths: JobPaths) -> Iterator[int]:
    """Take the job's lock; it is kept if what is done under it succeeds."""
    lock = -1
    try:
        lock = take_lock(paths, job.name)
        yield lock
    except BaseException as error:
        if lock >= 0:
            os.close(lock)  # or the job would look alive for as long as this process lives
        if isinstance(error, OSError):
            raise StorageError(str(paths.root), error.strerror or str(error), "GPUFIT_DATA") from error
        raise


def _alive_until(paths: JobPaths) -> float:
    """When a job was seen for the last time, in seconds since 1970; 0 where nobody knows."""
    try:
        return paths.state.stat().st_mtime  # written once a second
    except FileNotFoundError:
        return 0.0


def environment_of(start: Handover) -> dict[str, str]:
    """What a resumed worker gets: the job's own environment, and the settings that hold where it is resumed."""
    own = {name: value for name, value in start.env.items() if not name.startswith("GPUFIT_")}
    return own | {name: value for name, value in os.environ.items() if name.startswith("GPUFIT_")}
