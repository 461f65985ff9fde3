"""Where it goes on decides by which plan: without one on a device that holds it, by one where it is too large."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.command_line import gpufit, jobs
from tests.fit.test_fits_in_worker import CELL, SET_UP, as_one_cell
from tests.kernels import Kernel, environment

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def env(home: Path) -> dict[str, str]:
    return environment(home, GPUFIT_DEVICES="cpu:320MiB,cpu:2GiB", GPUFIT_ESTIMATE_LIMIT="300", GPUFIT_SPARE_WORKER="1")


@pytest.fixture
def notebook(kernel: Kernel, no_worker_outlives_its_test: None) -> Kernel:
    return kernel


def held(hold: Path) -> str:
    """A cell that does not come to its end until that file is there."""
    more = f"while i == 3 and not os.path.exists({str(hold)!r}): time.sleep(0.02)"
    return CELL.format(rows=5 << 14, more=more)


@pytest.mark.slow(23)
def test_a_plan_is_left_where_there_is_room_and_taken_up_again_where_there_is_not(
    notebook: Kernel, env: dict[str, str], home: Path
) -> None:
    hold = home / "go-on"
    notebook.check(SET_UP)
    cell = held(hold)
    sent = notebook.send("%%gpufit train --name large --gpu 0\n" + cell)
    began = notebook.until(sent, "step 3").shown
    assert "trains there by" in began, began
    assert gpufit(env, "move", "large", "--to", "1").returncode == 0
    left = notebook.until(sent, "goes on without").shown
    assert re.search(r"large needs \S+ MiB as it is, which is there: it goes on without (recomputing|spilling)", left)
    assert gpufit(env, "release", "large").returncode == 0
    notebook.finish(sent)
    assert jobs(env)["large"]["state"] == "released"

    sent = notebook.send("%gpufit resume large --gpu 0")
    again = notebook.until(sent, "running on cpu:0").shown
    assert re.search(r"It needs \S+ MiB as it is, which is not there: it goes on by (recomputing|spilling)", again)
    assert gpufit(env, "release", "large").returncode == 0
    notebook.finish(sent)
    hold.touch()
    resumed = notebook.run("%gpufit resume large --gpu 1")
    assert resumed.ok and "step 4" in resumed.stdout and "it goes on without" in resumed.shown, resumed
    as_one_cell(notebook, cell)


@pytest.mark.slow(11)
def test_one_that_fitted_goes_on_by_a_plan_on_a_smaller_device(
    notebook: Kernel, env: dict[str, str], home: Path
) -> None:
    hold = home / "go-on-smaller"
    notebook.check(SET_UP)
    cell = held(hold)
    sent = notebook.send("%%gpufit train --name smaller --gpu 1\n" + cell)
    began = notebook.until(sent, "step 3").shown
    assert "trains there by" not in began, began
    moved = gpufit(env, "move", "smaller", "--to", "0")
    assert moved.returncode == 0, moved
    notebook.until(sent, "which is not there: it goes on by")
    hold.touch()
    ran = notebook.finish(sent)
    assert ran.ok, ran
    as_one_cell(notebook, cell)
