"""A front is woken by what becomes of a job, also where no file tells."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from jupyter_gpufit.actions.stop import _end
from jupyter_gpufit.jobs import watch
from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.jobs.record import Record, take_lock, write_record
from jupyter_gpufit.jobs.state import OVER
from jupyter_gpufit.jobs.store import create_job_files
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.system.identity import ProcessId

pytestmark = pytest.mark.anyio


def holder(lock: int) -> subprocess.Popen[bytes]:
    """A process that alone has the lock."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[lock])
    os.close(lock)
    return process


WITHOUT = """
import sys
from pathlib import Path
import anyio
from jupyter_gpufit.jobs.paths import JobPaths
from jupyter_gpufit.jobs import watch
from jupyter_gpufit.jobs.record import Record, write_record

async def main(paths):
    with anyio.fail_after(300):
        async with watch.changes(paths) as looks:
            assert (await anext(looks)).state == "released"
            write_record(paths, Record(state="done", since=0.0))
            while (await anext(looks)).state != "done":
                pass

anyio.run(main, JobPaths(Path(sys.argv[1])))
"""


@pytest.mark.slow
@pytest.mark.parametrize("used_up", ["instances", "watches"])
def test_where_the_users_inotify_is_used_up_a_change_is_seen_all_the_same(tmp_path: Path, used_up: str) -> None:
    """In a user namespace of its own, which has none to give."""
    if subprocess.run(["unshare", "--user", "--map-root-user", "true"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no user namespaces here")
    paths = create_job_files(Settings(data=str(tmp_path)), Job(id="j", name="j", source="", created=0.0, cwd="/"))
    write_record(paths, Record(state="released", since=0.0))
    none_left = f'echo 0 > /proc/sys/user/max_inotify_{used_up} && exec "$@"'
    program = [sys.executable, "-c", WITHOUT, str(paths.root)]
    subprocess.run(["unshare", "--user", "--map-root-user", "sh", "-c", none_left, "sh", *program], check=True)


@pytest.mark.parametrize("state", ["running", "starting"])
async def test_a_worker_that_ends_between_two_looks_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setattr(watch, "LOOK_ANYWAY", 3600.0)
    paths = create_job_files(Settings(data=str(tmp_path)), Job(id="j", name="j", source="", created=0.0, cwd="/"))
    with holder(take_lock(paths, "j")) as worker:
        known = ProcessId.of(worker.pid) if state == "running" else None  # one that starts has not written it yet
        write_record(paths, Record(state=state, since=0.0, worker=known))  # type: ignore[arg-type]
        with anyio.fail_after(300):
            async with watch.changes(paths) as looks:
                assert (await anext(looks)).state == state
                worker.kill()
                worker.wait()
                while (await anext(looks)).state != "lost":
                    pass


async def test_one_that_was_cleaned_away_meanwhile_has_ended(tmp_path: Path) -> None:
    job = Job(id="j", name="bert", source="", created=0.0, cwd="/")
    paths = create_job_files(Settings(data=str(tmp_path)), job)
    shutil.rmtree(paths.root)

    async with watch.changes(paths) as looks:
        assert (await anext(looks)).state in OVER
    assert _end(job, paths, "interrupted") == "bert: ended, and its files are cleaned away"
