"""What is said of a job's variables where there is nothing to bring."""

from __future__ import annotations

import time
from pathlib import Path

from jupyter_gpufit.job import Job, create_job_files
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.travel import JobVariables
from jupyter_gpufit.worker.messages import Event, Note


def test_wanted_again_although_nothing_is_kept(folder: Path) -> None:
    job = Job(id="abc234", name="bert", source="pass", created=time.time(), cwd="/")
    paths = create_job_files(Settings(data=f"{folder}/data"), job)
    shown: list[Event] = []
    variables = JobVariables(job, paths, {})
    variables.expect(shown.append)
    variables.look_on_disk(again=True)
    assert not shown  # they never were here: whoever follows the job says where they are
    variables.here = True
    variables.look_on_disk(again=True)
    assert isinstance(shown[0], Note) and "Nothing of bert is kept to be brought again" in shown[0].text
