"""What plans take of the host's memory: two of them beside each other, and one that finds too little of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.command_line import gpufit, jobs
from tests.fit.test_fits_in_worker import LARGE_CELL, LARGE_SET_UP, as_one_cell
from tests.kernels import Kernel, environment

pytestmark = pytest.mark.slow(20)


@pytest.fixture(scope="module")
def env(home: Path) -> dict[str, str]:
    devices = "cpu:2x320MiB"
    config = str(home / "config")
    return environment(home, GPUFIT_DEVICES=devices, GPUFIT_ESTIMATE_LIMIT="300", XDG_CONFIG_HOME=config)


@pytest.fixture
def notebook(kernel: Kernel, no_worker_outlives_its_test: None) -> Kernel:
    return kernel


def eventually(true: Callable[[], bool]) -> None:
    """A job tells how it is once a second."""
    end = time.monotonic() + 300
    while not true():
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.mark.soak
def test_two_share_the_host_and_one_that_finds_too_little_is_told_the_figures_and_goes_on_later(
    notebook: Kernel, env: dict[str, str], home: Path
) -> None:
    hold, settings = home / "go-on", home / "config" / "gpufit" / "settings.toml"
    cell = LARGE_CELL.format(more=f"while i == 3 and not os.path.exists({str(hold)!r}): time.sleep(0.02)")
    notebook.check(LARGE_SET_UP)
    assert notebook.run("%%gpufit train --name one --detach\n" + cell).ok
    sent = notebook.send("%%gpufit train --name two\n" + cell)
    notebook.until(sent, "step 3")  # no trial run comes so far

    def host_of(name: str) -> int:
        return int((jobs(env)[name]["memory"] or {}).get("host", 0))

    eventually(lambda: host_of("one") > 200 << 20 and host_of("two") > 200 << 20)
    assert "of the host" in gpufit(env, "jobs").stdout.splitlines()[0]
    assert jobs(env)["one"]["device"] != jobs(env)["two"]["device"]

    assert gpufit(env, "release", "two").returncode == 0
    notebook.finish(sent)
    settings.parent.mkdir(parents=True)
    settings.write_text('fit_host = "40MiB"\n')
    refused = notebook.run("%gpufit resume two")
    assert not refused.ok and "has 40.0 MiB to spare" in refused.shown + str(refused), refused

    settings.unlink()
    hold.touch()
    assert notebook.run("%gpufit resume two").ok
    as_one_cell(notebook, cell, LARGE_SET_UP)
    eventually(lambda: jobs(env)["one"]["state"] == "done")


@pytest.mark.slow(13)
def test_what_the_host_has_no_room_for_is_said_before_the_cell_begins(notebook: Kernel, env: dict[str, str]) -> None:
    notebook.check("import os; os.environ['GPUFIT_FIT_HOST'] = '8MiB'\n" + LARGE_SET_UP)
    ran = notebook.run("%%gpufit train --name none\n" + LARGE_CELL.format(more="pass"))

    assert "of the host's memory, which has 8.0 MiB to spare" in ran.shown, ran
