"""Eight GPUs and thirty jobs, which a real server reads from a pretended driver: what is drawn, and what vanishes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from jupyter_gpufit.devices.nvml import NvmlCode
from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.jobs.paths import JobPaths
from jupyter_gpufit.jobs.record import Record, take_lock
from jupyter_gpufit.jobs.store import create_job_files
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.system.files import write_whole
from tests.fake_nvml import FakeNvml, Gpu

from .conftest import HANGS, SIZE, Lab, keep_picture, running_lab
from .screen import fold, job_card, open_panel, panel_of

pytest_plugins = ["tests.fake_nvml.fixtures"]

DEVICES, JOBS, RUNNING = 8, 30, 10
OF_GPUS = "Memory of GPU"  # and not of the host
READINGS = 10
LONG_AGO = 1_700_000_000.0
LOST = {"*": NvmlCode.GPU_IS_LOST}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("full")


@pytest.fixture(scope="module")
def jobs(home: Path) -> Iterator[list[JobPaths]]:
    """Thirty jobs; of the last ones somebody holds the lock, as a worker does."""
    settings = Settings(data=str(home / "data"))
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


def show(gpus: FakeNvml, reading: int, *lost: int) -> None:
    """Another moment of the same GPUs: one of them computes, and some have fallen off the bus."""
    gpus.show(
        *(
            Gpu(utilisation=reading if i == 3 else 50, temperature=40 + i, errors=LOST if i in lost else {})
            for i in range(DEVICES)
        )
    )


@pytest.fixture(scope="module")
def gpus(home: Path, nvml_library: Path) -> FakeNvml:
    found = FakeNvml(home, nvml_library)
    show(found, 0)
    return found


@pytest.fixture(scope="module")
def full_lab(home: Path, gpus: FakeNvml, jobs: list[JobPaths]) -> Iterator[Lab]:
    pretended = {name: gpus.env[name] for name in ("LD_LIBRARY_PATH", "FAKE_NVML_STATE", "FAKE_NVML_LOG")}
    pretended |= {"GPUFIT_DEVICES": "gpu", "GPUFIT_DATA": str(home / "data")}
    with running_lab(home, more=pretended) as lab:
        yield lab


@pytest.fixture(scope="module")
def opened(browser: Browser, full_lab: Lab) -> Iterator[Page]:
    page = browser.new_page(viewport=SIZE)
    page.set_default_timeout(HANGS)
    open_panel(page, full_lab)
    fold(page, "Ended").click()
    yield page
    page.close()


@pytest.fixture
def full(opened: Page, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page on which all of them are shown."""
    expect(panel_of(opened).get_by_role("meter", name=OF_GPUS)).to_have_count(DEVICES)
    expect(opened.locator(".jp-gpufit-job")).to_have_count(JOBS)
    yield opened
    keep_picture(opened, request)


WATCH = """panel => {
  window.gpufit = { tasks: [], cards: new Set() };
  new PerformanceObserver(list => gpufit.tasks.push(...list.getEntries().map(task => task.duration)))
    .observe({ type: 'longtask' });
  new MutationObserver(changes => changes.forEach(({ target }) => {
    const card = (target.closest ? target : target.parentElement)?.closest('[data-job], [data-device]');
    gpufit.cards.add(card?.dataset.job ?? card?.dataset.device);
  })).observe(panel, { subtree: true, childList: true, attributes: true, characterData: true });
}"""


@pytest.mark.slow(35)
def test_what_changes_is_drawn_and_nothing_else(full: Page, gpus: FakeNvml, jobs: list[JobPaths]) -> None:
    panel = panel_of(full)
    panel.evaluate(WATCH)

    for reading in range(1, READINGS + 1):
        note(jobs[-1], "running", reading)
        show(gpus, reading)
        expect(job_card(full, f"job-{JOBS - 1}")).to_contain_text(f"step {reading}")
    expect(panel).to_contain_text(f"{READINGS} %")

    drawn = set(full.evaluate("[...gpufit.cards]"))
    assert {"3", f"many{JOBS - 1}"} <= drawn
    # Time passes; but what has ended stays as it is.
    assert not drawn & {f"many{i:02}" for i in range(JOBS - RUNNING)}
    tasks = full.evaluate("gpufit.tasks")
    assert sum(tasks) < READINGS * 200, tasks  # ms; a calm machine has none


@pytest.mark.slow(15)
def test_a_gpu_that_vanishes_is_told_and_comes_back(full: Page, gpus: FakeNvml) -> None:
    panel = panel_of(full)
    fifth = panel.get_by_role("meter", name="Memory of GPU 5")

    show(gpus, 71, 5)
    expect(fifth).to_have_count(0)
    expect(panel).to_contain_text("GPU is lost")
    expect(panel).to_contain_text("71 %")  # the others go on
    expect(panel.get_by_role("meter", name=OF_GPUS)).to_have_count(DEVICES - 1)

    gpus.unload()  # the whole driver
    expect(panel.get_by_role("meter", name=OF_GPUS)).to_have_count(0)
    expect(full.locator(".jp-gpufit-job")).to_have_count(JOBS)

    show(gpus, 72)
    expect(panel).to_contain_text("72 %")
    expect(panel.get_by_role("meter", name=OF_GPUS)).to_have_count(DEVICES)
