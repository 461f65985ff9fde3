"""Renames that the server hears of are noted in their order, also when the first is slow."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.jobs.record import Record, write_record
from jupyter_gpufit.jobs.renamed import where_now
from jupyter_gpufit.jobs.store import all_jobs, create_job_files
from jupyter_gpufit.server.renames import Renames
from jupyter_gpufit.settings import Settings


def test_a_file_and_then_its_folder(tmp_path: Path) -> None:
    settings = Settings(data=str(tmp_path / "data"))
    job = Job(id="one", name="one", source="", created=0.0, cwd="/", notebook="/old/first.ipynb")
    write_record(create_job_files(settings, job), Record(state="done", since=0.0))
    calls, second = [0], threading.Event()

    def slow_at_first() -> Settings:
        calls[0] += 1
        if calls[0] == 1:
            second.wait(0.5)  # as long as another could overtake it
        else:
            second.set()
        return settings

    changed: list[int] = []
    renames = Renames(slow_at_first, lambda path: f"/{path}", lambda: changed.append(calls[0]))

    async def heard() -> None:
        told = [("old/first.ipynb", "old/renamed.ipynb"), ("old", "new")]
        await asyncio.gather(
            *(renames.hear(None, "", {"action": "rename", "source_path": one, "path": other}) for one, other in told)
        )

    asyncio.run(heard())

    assert [job.notebook for job, _ in all_jobs(settings)] == ["/new/renamed.ipynb"] and changed == [1, 2]
    assert where_now(settings, "/old/first.ipynb", 0.0) == "/new/renamed.ipynb"
