"""Ten jobs that run, as far as their files tell, for panel.py; the first has a long journal."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from common import package_root
from panel_lookers import SPAWN

package_root()

from jupyter_gpufit.jobs.events import DeviceMark, Metrics, ProgressMark, Text  # noqa: E402 - needs the path above
from jupyter_gpufit.jobs.events import Event as Written  # noqa: E402
from jupyter_gpufit.jobs.job import Job  # noqa: E402
from jupyter_gpufit.jobs.journal import Journal  # noqa: E402
from jupyter_gpufit.jobs.live import Live, Loss, Memory, Progress  # noqa: E402
from jupyter_gpufit.jobs.paths import JobPaths  # noqa: E402
from jupyter_gpufit.jobs.record import Record, take_lock, write_record  # noqa: E402
from jupyter_gpufit.jobs.store import create_job_files  # noqa: E402
from jupyter_gpufit.settings import Settings  # noqa: E402

JOBS = 10
BEFORE = 20_000  # seconds for which the job whose page is open has run
JOURNAL = 64 << 20  # bytes


@contextmanager
def jobs(settings: Settings) -> Iterator[None]:
    """Ten jobs that run, as far as their files tell: their locks are ours, their states are written each second."""
    found = [Job(id=f"job{n:03}", name=f"train-{n}", source="", created=float(n), cwd="/") for n in range(JOBS)]
    paths = [create_job_files(settings, job) for job in found]
    locks = [take_lock(one, "bench") for one in paths]
    for one in paths:
        write_record(one, running(0))
    journal = Journal(paths[0].journal, JOURNAL)
    journal.append([event for step in range(BEFORE) for event in second(step)])
    journal.close()
    writer = SPAWN.Process(target=write, args=(paths,), daemon=True)
    writer.start()
    try:
        yield
    finally:
        writer.terminate()
        writer.join()
        for lock in locks:
            os.close(lock)


def write(paths: Sequence[JobPaths]) -> None:
    journal = Journal(paths[0].journal, JOURNAL)
    for step in itertools.count(BEFORE):
        time.sleep(1.0)
        journal.append(second(step))
        for one in paths:
            write_record(one, running(step))


def second(step: int) -> list[Written]:
    """What a job writes into its journal in a second."""
    found: list[Written] = [ProgressMark(step, 1 << 30, 1 << 30), Text("stdout", f"step {step}\n")]
    found += [Metrics(step, {"loss": 1.0 / (step + 1), "lr": 1e-3}), DeviceMark(93, 310.0)] if step % 10 == 0 else []
    return found


def running(step: int) -> Record:
    live = Live(
        progress=Progress(step=step, per_second=1.0, total=10_000, left=float(10_000 - step)),
        loss=Loss(name="loss", value=1.0 / (step + 1)),
        metrics=("loss", "lr"),
        memory=Memory(used=1 << 30, peak=1 << 30),
    )
    return Record(state="running", since=time.time(), device="0", epoch=1, step=step, live=live)
