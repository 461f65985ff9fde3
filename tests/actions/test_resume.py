"""Which jobs can be resumed, and what becomes of those that wait for it; without a worker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from jupyter_gpufit.actions import resume
from jupyter_gpufit.actions.clean import clean
from jupyter_gpufit.actions.status import StatusReader
from jupyter_gpufit.actions.table import jobs as table_of
from jupyter_gpufit.checkpoint.layout import lay_out
from jupyter_gpufit.checkpoint.manifest import About
from jupyter_gpufit.checkpoint.publish import Publisher
from jupyter_gpufit.checkpoint.request import WriterRequest
from jupyter_gpufit.checkpoint.values import Snapshot
from jupyter_gpufit.checkpoint.windows import in_one
from jupyter_gpufit.errors import BadOption, JobBusy, NeverFits, NoSuchDevice, NoSuchJob, NotResumable
from jupyter_gpufit.jobs.epoch import current_epoch, name_of, next_epoch, publishing
from jupyter_gpufit.jobs.handover import Handover, note_start, noted_start
from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.jobs.live import Live, Memory
from jupyter_gpufit.jobs.paths import JobPaths
from jupyter_gpufit.jobs.record import LastCheckpoint, Record, read_record, take_lock, write_record
from jupyter_gpufit.jobs.state import State
from jupyter_gpufit.jobs.store import create_job_files
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.system.identity import ProcessId
from jupyter_gpufit.units import GiB

SAVED = LastCheckpoint(step=1204, time=1e9, bytes=1 << 30)


@pytest.fixture
def settings(folder: Path) -> Settings:
    return Settings(devices="cpu:2x4GiB", lab=f"{folder}/lab", data=f"{folder}/data", runtime=f"{folder}/run")


def a_job(settings: Settings, name: str, state: State, checkpoint: LastCheckpoint | None = SAVED) -> JobPaths:
    job = Job(id=f"{name}-id", name=name, source="pass", created=time.time(), cwd="/")
    paths = create_job_files(settings, job)
    note_start(paths, Handover(job_root=str(paths.root), cwd="/", path=[], env={}, cell_number=1))
    write_record(paths, Record(state=state, since=1e9, reason="because", checkpoint=checkpoint))
    return paths


@pytest.mark.parametrize(
    ("state", "checkpoint", "why"),
    [
        ("done", SAVED, "it has ended well"),
        ("queued", SAVED, "it is queued"),
        ("stopped", None, "it was stopped, and left no checkpoint"),
        ("released", SAVED, ""),
        ("lost", SAVED, ""),
        ("failed", SAVED, ""),
    ],
)
def test_a_job_with_a_checkpoint_that_does_not_run_can_be_resumed(
    state: State, checkpoint: LastCheckpoint | None, why: str
) -> None:
    found = Record(state=state, since=0.0, checkpoint=checkpoint).why_not("resume")
    assert why in found and bool(why) == bool(found)


def test_the_newest_that_can_be_resumed_is_meant_and_its_step_is_said(settings: Settings) -> None:
    a_job(settings, "bert", "released")
    a_job(settings, "gpt", "done")
    found = anyio.run(resume.prepare, settings, "")
    assert found.job.name == "bert" and "from step 1,204" in found.words(1e9 + 60)
    with pytest.raises(NotResumable, match="gpt cannot be resumed: it has ended well. Its output, and its var"):
        anyio.run(resume.prepare, settings, "gpt")
    with pytest.raises(NoSuchDevice):
        anyio.run(resume.prepare, settings, "bert", "cpu:9")


def test_a_lost_jobs_process_is_not_waited_for(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resume, "LEAVING", 600.0)
    paths = a_job(settings, "bert", "running")  # by a worker that is stopped, and cut off from its lock
    write_record(paths, replace(read_record(paths), state="running", worker=ProcessId.of(os.getpid())))

    async def prepare() -> None:
        with anyio.fail_after(300):
            await resume.prepare(settings, "bert")

    anyio.run(prepare)


def test_it_goes_on_with_what_its_runs_tell_that_it_needs(settings: Settings) -> None:
    def prepared(record: Record, memory: int | None = None) -> resume.Resumption:
        write_record(paths, record)
        return anyio.run(resume.prepare, settings, "bert", "cpu:1", memory)

    paths = a_job(settings, "bert", "released")
    released = Record(state="released", since=1e9, checkpoint=SAVED, step=1204)
    assert prepared(released).start.why == "needs a whole device, as before: nobody can tell yet what it takes"
    seen = prepared(replace(released, live=Live(memory=Memory(used=1, peak=2 * GiB))))
    assert (seen.start.needed, seen.start.gpu) == (2.5 * GiB, "cpu:1")
    assert seen.words(1e9 + 60).endswith(" It needs 2.5 GiB: 2.0 GiB measured so far, and a reserve.")
    _publish(paths, peak=3 * GiB)
    assert prepared(released).start.needed == 3.75 * GiB
    said = prepared(released, memory=GiB).start
    assert (said.needed, said.why) == (GiB, "needs 1.0 GiB: so --memory says")
    with pytest.raises(NeverFits):
        prepared(released, memory=5 * GiB)


def test_after_it_ran_out_of_a_claim_it_goes_on_with_a_whole_device(settings: Settings) -> None:
    paths = a_job(settings, "bert", "failed")
    note_start(paths, replace(noted_start(paths), needed=GiB))
    grown = Live(memory=Memory(used=1, peak=2 * GiB))
    reason = "OutOfMemoryError: the slot's 1 GiB"
    ran_out = Record(state="failed", since=1e9, reason=reason, checkpoint=SAVED, step=1204, live=grown)
    write_record(paths, ran_out)
    found = anyio.run(resume.prepare, settings, "bert").start
    assert (found.needed, found.outgrew, found.why) == (None, 2 * GiB, "needs a whole device: 2.0 GiB were too little")
    note_start(paths, found)  # as a worker does; it was released in the queue
    write_record(paths, replace(ran_out, state="released", reason=""))
    assert anyio.run(resume.prepare, settings, "bert").start.needed is None


def test_an_earlier_checkpoint_is_found_by_its_step_or_its_name(settings: Settings) -> None:
    paths = a_job(settings, "bert", "released")
    write_record(paths, Record(state="released", since=1e9, checkpoint=SAVED, step=1300))
    _publish(paths, step=900)
    _publish(paths, number=2)

    found = anyio.run(resume.prepare, settings, "bert", "", None, None, "900")

    assert (found.back, found.checkpoint.step, found.repeats) == ("000001-000001", 900, 400)
    words = found.words(1e9)
    assert "goes on from step 900, saved" in words and "400 steps since then are trained again." in words
    assert anyio.run(resume.prepare, settings, "bert", "", None, None, "000001-000001").back == found.back
    newest = anyio.run(resume.prepare, settings, "bert", "", None, None, "1,204")
    assert (newest.back, newest.repeats) == ("", 0)
    with pytest.raises(NotResumable, match="no checkpoint of step 7. There are: step 1,204, step 900."):
        anyio.run(resume.prepare, settings, "bert", "", None, None, "7")


def test_one_whose_process_rests_does_not_go_back(settings: Settings) -> None:
    paths = a_job(settings, "bert", "released")
    _publish(paths, step=900)
    _publish(paths, number=2)
    resting = Record(state="released", since=1e9, checkpoint=SAVED, suspended=True, worker=ProcessId.of(os.getpid()))
    write_record(paths, resting)
    with pytest.raises(NotResumable, match="gpufit stop bert"):
        anyio.run(resume.prepare, settings, "bert", "", None, None, "900")


def _publish(paths: JobPaths, peak: int = 0, step: int = 1204, number: int = 1) -> None:
    """A checkpoint that knows how much its training had taken."""
    name, snapshot = name_of(1, number), Snapshot(b"graph", ())
    layout = lay_out(name, snapshot, {}, ())
    memory = bytearray(layout.nbytes)
    for image, head in zip(layout.images, layout.heads, strict=True):
        memory[image.start : image.start + image.head] = head
    known = About(step=step, epoch=1, time=1e9, where="", device="", peak=peak)
    request = WriterRequest.of(name, known, 3, snapshot, layout, "")
    Publisher(paths.checkpoints).publish(request, in_one(memoryview(memory)))


def test_with_nothing_to_resume_it_is_said(settings: Settings) -> None:
    a_job(settings, "gpt", "stopped", None)
    with pytest.raises(NoSuchJob, match="No job of yours can be resumed"):
        anyio.run(resume.prepare, settings, "")
    with pytest.raises(NotResumable, match="left no checkpoint. Run its cell again."):
        anyio.run(resume.prepare, settings, "gpt")


@pytest.mark.slow(1)
def test_whoever_has_the_lock_has_the_job(settings: Settings) -> None:
    paths = a_job(settings, "bert", "released")
    lock = take_lock(paths, "bert")
    with pytest.raises(NotResumable, match="it runs already"):
        take_lock(paths, "bert")
    os.close(lock)
    os.close(take_lock(paths, "bert"))


def test_each_start_is_an_epoch(settings: Settings) -> None:
    paths = a_job(settings, "bert", "released")
    assert current_epoch(paths) == 0
    assert [next_epoch(paths), next_epoch(paths)] == [1, 2]
    paths.checkpoints.mkdir(mode=0o700)
    assert next_epoch(paths) == current_epoch(paths) == 3


@pytest.mark.slow
def test_a_new_epoch_waits_for_a_publish_that_has_looked_at_the_old_one(settings: Settings) -> None:
    paths = a_job(settings, "bert", "released")
    paths.checkpoints.mkdir(mode=0o700)
    code = f"""
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from jupyter_gpufit.jobs.paths import JobPaths
from jupyter_gpufit.jobs.epoch import next_epoch
next_epoch(JobPaths(Path({str(paths.root)!r})))
"""
    with publishing(paths.checkpoints):  # an older worker between its look and its rename
        later = subprocess.Popen([sys.executable, "-c", code])
        until = time.monotonic() + 60
        while later.poll() is None and not _waits_for_a_lock(later.pid):
            assert time.monotonic() < until
            time.sleep(0.001)
        assert later.poll() is None and current_epoch(paths) == 0
    assert later.wait(60) == 0 and current_epoch(paths) == 1


def _waits_for_a_lock(pid: int) -> bool:
    lines = map(str.split, Path("/proc/locks").read_text().splitlines())
    return any("->" in words and str(pid) in words for words in lines)


def test_a_record_keeps_its_checkpoint_and_a_killed_worker_leaves_it(settings: Settings) -> None:
    paths = a_job(settings, "bert", "running")
    found = read_record(paths)
    assert (found.state, found.checkpoint, found.resumable) == ("lost", SAVED, True)
    assert not replace(found, checkpoint=None).resumable


def test_a_checkpoint_of_another_version_is_read_and_is_exact_where_it_does_not_say(settings: Settings) -> None:
    paths = a_job(settings, "bert", "released")
    record = json.loads(paths.state.read_text())
    del record["checkpoint"]["exact"]
    record["checkpoint"]["colour"] = "red"
    paths.state.write_text(json.dumps(record))
    assert read_record(paths).checkpoint == SAVED and SAVED.exact


def test_cleaning_spares_what_waits_to_be_resumed(settings: Settings) -> None:
    for name, state in (("released", "released"), ("stopped", "stopped"), ("done", "done")):
        a_job(settings, name, state)  # type: ignore[arg-type]
    a_job(settings, "lost", "running")
    a_job(settings, "failed", "failed", None)
    *removed, stay = clean(settings, [])
    assert [word.split()[0] for word in removed] == ["done", "failed", "2"]
    assert stay.startswith("3 that can be resumed stay: released, stopped, lost. To remove one: gpufit clean NAME")
    assert [word.split()[0] for word in clean(settings, ["released"])] == ["released", "1"]
    assert [job.name for job in StatusReader().jobs(settings)] == ["stopped", "lost"]
    with pytest.raises(BadOption, match="either"):
        list(clean(settings, ["stopped"], resumable=True))
    assert [word.split()[0] for word in clean(settings, [], resumable=True)] == ["stopped", "lost", "2"]
    assert not StatusReader().jobs(settings)


def test_a_release_between_two_looks_is_no_loss(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = a_job(settings, "bert", "running")

    @contextmanager
    def is_released(_: JobPaths) -> Iterator[bool]:
        write_record(paths, Record(state="released", since=1e9, checkpoint=SAVED))
        yield True

    monkeypatch.setattr("jupyter_gpufit.jobs.record._glanced_at", is_released)
    assert read_record(paths).state == "released"


def test_a_running_job_is_not_cleaned(settings: Settings) -> None:
    paths = a_job(settings, "bert", "running")
    lock = take_lock(paths, "bert")
    with pytest.raises(JobBusy):
        list(clean(settings, ["bert"]))
    os.close(lock)


@pytest.mark.slow(1)
def test_a_job_that_is_being_resumed_is_not_cleaned(settings: Settings) -> None:
    paths = a_job(settings, "bert", "released")
    lock = take_lock(paths, "bert")  # and its record is not yet written
    with pytest.raises(JobBusy):
        list(clean(settings, ["bert"]))
    assert paths.job.exists()
    os.close(lock)


@pytest.mark.slow
def test_a_job_whose_worker_is_about_to_end_is_cleaned_when_it_has(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = a_job(settings, "bert", "stopped")
    lock = take_lock(paths, "bert")
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, pass_fds=[lock]
    ) as worker:
        os.close(lock)
        write_record(paths, replace(read_record(paths), worker=ProcessId.of(worker.pid)))
        opened = ProcessId.open

        def leaves_once_it_is_waited_for(self: ProcessId) -> int | None:
            fd = opened(self)
            assert worker.stdin is not None
            worker.stdin.close()
            return fd

        monkeypatch.setattr(ProcessId, "open", leaves_once_it_is_waited_for)
        assert "1 job removed" in list(clean(settings, ["bert"]))[-1]


def test_the_list_of_jobs_says_what_is_saved_and_how_to_go_on(settings: Settings) -> None:
    a_job(settings, "bert", "stopped")
    a_job(settings, "gpt", "done", None)
    listed = table_of(StatusReader().jobs(settings), 1e9 + 120)
    assert "step 1,204, 2 min ago" in listed and "`gpufit resume bert` goes on" in listed
    assert "resume gpt" not in listed and "exact" not in listed


def test_a_checkpoint_from_which_nothing_goes_on_to_the_bit_is_marked(settings: Settings) -> None:
    a_job(settings, "bert", "released", replace(SAVED, exact=False))
    assert "step 1,204 (not exact to the bit), 2 min ago" in table_of(StatusReader().jobs(settings), 1e9 + 120)
    words = anyio.run(resume.prepare, settings, "").words(1e9 + 60)
    assert "goes on from step 1,204 (not exact to the bit), saved 1 min ago" in words


@pytest.mark.parametrize(
    ("verb", "state", "why"),
    [
        ("checkpoint", "running", ""),
        ("checkpoint", "queued", "nothing to save yet"),
        ("release", "queued", ""),  # one that was resumed: it gives up its place
        ("release", "released", "it does not run"),
        ("move", "moving", "it is moving"),
        ("move", "running", ""),
    ],
)
def test_what_can_be_asked_of_a_job(verb: str, state: State, why: str) -> None:
    found = Record(state=state, since=0.0, checkpoint=SAVED).why_not(verb)  # type: ignore[arg-type]
    assert why in found and bool(why) == bool(found)
