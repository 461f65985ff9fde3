"""Starting workers: the kernel's side of the handover, and the spare that makes it quick."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from ..errors import StorageError, WorkerDied
from ..job import Job, JobPaths
from .handover import Handover, send
from .record import take_lock


@dataclass
class Started:
    """A worker process of ours; `exit_code` tells how it ended, which only its parent can know."""

    process: subprocess.Popen[bytes]
    log: IO[bytes]  # what it wrote before it had a job

    def exit_code(self) -> int | None:
        return self.process.poll()

    def reap(self) -> None:
        """Wait for its end and give back what it took of this process; no zombie, no open file stays."""
        self.process.wait()
        self.log.close()

    def early_words(self) -> str:
        """The end of what it said before it had a job: why it could not start."""
        self.log.seek(0)
        return self.log.read().decode(errors="replace").strip()[-2000:]


@dataclass
class Waiting:
    """A worker that waits for its job; it ends by itself when this end of the channel closes."""

    started: Started
    channel: socket.socket
    env: Mapping[str, str]

    @classmethod
    def spawn(cls) -> Waiting:
        """Start a worker in a session of its own, so that no signal to the kernel's group reaches it."""
        ours, theirs = socket.socketpair()
        log = tempfile.TemporaryFile()
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", "jupyter_gpufit.worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=with_our_package(os.environ),
            )
        return cls(Started(process, log), ours, dict(os.environ))

    def usable(self) -> bool:
        """Alive, and started with today's environment: OMP_NUM_THREADS and its like are read at import."""
        return self.started.exit_code() is None and dict(os.environ) == self.env

    def give(self, job: Job, paths: JobPaths, memory: Sequence[int], cell_number: int) -> Started:
        """Hand the job over; from here on the worker holds its lock."""
        try:
            lock = take_lock(paths)
        except OSError as error:
            raise StorageError(str(paths.root), error.strerror or str(error), "GPUFIT_DATA") from error
        handover = Handover(
            job_root=str(paths.root),
            cwd=job.cwd,
            path=sys.path,
            env=dict(os.environ),
            cell_number=cell_number,
            lock=lock,
            memory=list(memory),
        )
        try:
            send(self.channel, handover)
        except OSError as error:
            raise WorkerDied(job.name, f"could not start: {self.started.early_words() or error}.") from error
        finally:
            os.close(lock)
            self.channel.close()
        return self.started

    def dismiss(self) -> None:
        """End it; it has no job, and may be in the middle of an import that would keep us waiting."""
        self.channel.close()
        self.started.process.terminate()
        self.started.reap()


class Spare:
    """At most one waiting worker, kept by the kernel when the setting `spare_worker` asks for it."""

    def __init__(self) -> None:
        self._waiting: Waiting | None = None

    def prepare(self) -> None:
        """Start a spare if there is none; it imports torch while nobody waits."""
        if self._waiting is None or not self._waiting.usable():
            self.dismiss()
            self._waiting = Waiting.spawn()

    def take(self) -> Waiting:
        """The spare if it serves, or else a new worker."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None and waiting.usable():
            return waiting
        if waiting is not None:
            waiting.dismiss()
        return Waiting.spawn()

    def dismiss(self) -> None:
        if self._waiting is not None:
            self._waiting.dismiss()
            self._waiting = None


def with_our_package(env: Mapping[str, str]) -> dict[str, str]:
    """Let the worker import this very package, also where the kernel found it through sys.path alone."""
    import jupyter_gpufit

    ours = os.path.dirname(os.path.dirname(os.path.abspath(jupyter_gpufit.__file__)))
    given = env.get("PYTHONPATH")
    return {**env, "PYTHONPATH": os.pathsep.join([given, ours] if given else [ours])}
