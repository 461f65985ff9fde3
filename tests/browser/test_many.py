"""Eight GPUs and thirty jobs, which a real server reads from a pretended driver: only what changes is drawn."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from jupyter_gpufit.job import Job, JobPaths, create_job_files, write_whole
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.worker.record import Record, take_lock
from tests.fake_nvml import FakeNvml, Gpu

from .conftest import Lab, running_lab
from .screen import job_card, open_panel

pytest_plugins = ["tests.fake_nvml.fixtures"]

DEVICES, JOBS, RUNNING = 8, 30, 10
READINGS = 10
LONG_AGO = 1_700_000_000.0


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[list[JobPaths]]:
    """Thirty jobs; of the last ones somebody holds the lock, as a worker does."""
    settings = Settings(data=str(tmp_path / "data"))
    paths, locks = [], []
    for i in range(JOBS):
        job = Job(id=f"many{i:02}", name=f"job-{i}", source="", created=LONG_AGO + i, cwd="/", notebook=f"/a/{i}.ipynb")
        paths.append(create_job_files(settings, job))
        runs = i >= JOBS - RUNNING
        if runs:
            locks.append(take_lock(paths[-1], job.name))
        note(paths[-1], "running" if runs else "done", 0)
    yield paths
    for lock in locks:
        os.close(lock)


def note(paths: JobPaths, state: str, step: int) -> None:
    record = Record(state="running" if state == "running" else "done", since=LONG_AGO, step=step)
    write_whole(paths.state, record.to_json())


def show(fake_nvml: FakeNvml, reading: int) -> None:
    """Another moment of the same GPUs: one of them computes."""
    fake_nvml.show(*(Gpu(utilisation=reading if i == 3 else 50, temperature=40 + i) for i in range(DEVICES)))


@pytest.fixture
def full_lab(tmp_path: Path, fake_nvml: FakeNvml, jobs: list[JobPaths]) -> Iterator[Lab]:
    show(fake_nvml, 0)
    pretended = {name: fake_nvml.env[name] for name in ("LD_LIBRARY_PATH", "FAKE_NVML_STATE", "FAKE_NVML_LOG")}
    pretended |= {"GPUFIT_DEVICES": "gpu", "GPUFIT_DATA": str(tmp_path / "data")}
    with running_lab(tmp_path, more=pretended) as lab:
        yield lab


WATCH = """panel => {
  window.gpufit = { tasks: [], cards: new Set() };
  new PerformanceObserver(list => gpufit.tasks.push(...list.getEntries().map(task => task.duration)))
    .observe({ type: 'longtask' });
  new MutationObserver(changes => changes.forEach(({ target }) => {
    const card = (target.closest ? target : target.parentElement)?.closest('.jp-gpufit-card');
    gpufit.cards.add(card?.dataset.job ?? card?.querySelector('.jp-gpufit-label')?.textContent);
  })).observe(panel, { subtree: true, childList: true, attributes: true, characterData: true });
}"""


def test_what_changes_is_drawn_and_nothing_else(
    page: Page, full_lab: Lab, fake_nvml: FakeNvml, jobs: list[JobPaths]
) -> None:
    panel = open_panel(page, full_lab)
    expect(panel.get_by_role("meter")).to_have_count(DEVICES)
    expect(page.locator(".jp-gpufit-job")).to_have_count(JOBS)
    panel.evaluate(WATCH)

    for reading in range(1, READINGS + 1):
        note(jobs[-1], "running", reading)
        show(fake_nvml, reading)
        expect(job_card(page, f"job-{JOBS - 1}")).to_contain_text(f"step {reading}")
    expect(panel).to_contain_text(f"{READINGS} %")

    drawn = set(page.evaluate("[...gpufit.cards]"))
    assert {"GPU 3", f"many{JOBS - 1}"} <= drawn
    # Every device has one more sample of its history, and time passes; but what has ended stays as it is.
    assert not drawn & {f"many{i:02}" for i in range(JOBS - RUNNING)}
    tasks = page.evaluate("gpufit.tasks")
    assert sum(tasks) < READINGS * 200, tasks  # ms; a calm machine has none
