"""What a job leaves on the disk is for its owner's eyes, whatever becomes of the directory around it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.jobs.record import begin
from jupyter_gpufit.jobs.store import create_job_files
from jupyter_gpufit.settings import Settings
from tests.command_line import gpufit, until_ended, until_running
from tests.kernels import Kernel, environment

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_worker_outlives_its_test")]


def test_every_file_of_a_job_is_for_its_owner_only(kernel: Kernel, env: dict[str, str], home: Path) -> None:
    kernel.check("import os, time, torch\nweights = torch.zeros(3)")
    go = home / "go on"
    kernel.check(
        "%%gpufit train --detach --name owned\nfor step in range(3):\n    weights += 1; print('step', step)\n"
        f"    while not os.path.exists({str(go)!r}): time.sleep(0.02)\n"
    )
    anyio.run(until_running, home, "owned")
    assert gpufit(env, "checkpoint", "owned").returncode == 0
    go.touch()
    anyio.run(until_ended, home, "owned")
    [job] = (home / ".local/share/gpufit/jobs").iterdir()
    found = {str(file.relative_to(job)): file.stat().st_mode & 0o077 for file in job.rglob("*")}
    assert {"input/graph.pkl", "journal.jsonl", "state.json", "result/reply.graph"} <= found.keys()
    assert not any(found.values()), found


LOOKS = """
import sys
from pathlib import Path
from jupyter_gpufit.jobs import journal, picked, record, store
from jupyter_gpufit.jobs.paths import JobPaths
from jupyter_gpufit.settings import load_settings
paths = JobPaths(Path(sys.argv[1]))
store.all_jobs(load_settings())
record.read_record(paths)
assert picked.picked(paths) is None
assert not list(journal.JournalReader(paths.journal).read())
"""


@pytest.mark.parametrize("name", ["job.json", "state.json", "lock", "journal.jsonl", "picked.json"])
def test_nobody_waits_for_a_fifo_that_has_a_files_name(name: str, tmp_path: Path) -> None:
    """A cell can make one in its job's own directory, as it can ruin any file of its user's."""
    env = environment(tmp_path)
    job = Job(id="abc234", name="bert", source="", created=0.0, cwd="/")
    paths = create_job_files(Settings(data=str(tmp_path / ".local/share/gpufit")), job)
    begin(paths)
    (paths.root / name).unlink(missing_ok=True)
    os.mkfifo(paths.root / name)
    looked = [sys.executable, "-c", LOOKS, str(paths.root)]
    ran = subprocess.run(looked, env=env, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert gpufit(env, "jobs").returncode == 0
