"""What a plan makes a job wait for, and what it spares it: the host's memory, and a device that is taken."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpufit.lab import open_lab
from jupyter_gpufit.lab.ends import End, EndNote
from jupyter_gpufit.lab.published import Published, publish
from jupyter_gpufit.lab.record import Hold
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.units import MiB
from tests.command_line import gpufit, jobs
from tests.fit.test_fits_in_worker import CELL, LARGE_CELL, LARGE_SET_UP, SET_UP, as_one_cell
from tests.fit.test_host_in_worker import eventually
from tests.kernels import Kernel, environment, running_kernel
from tests.lab.values import request

pytestmark = [pytest.mark.slow(20), pytest.mark.usefixtures("no_worker_outlives_its_test")]
SOME = 600.0  # seconds in which the holder of a device expects to end: longer than five steps, shorter than a million


def user(home: Path, devices: str) -> dict[str, str]:
    more = {"GPUFIT_POLICY": str(home / "policy.toml"), "GPUFIT_LAB": str(home / "lab"), "GPUFIT_SPARE_WORKER": "1"}
    return environment(home, GPUFIT_DEVICES=devices, GPUFIT_ESTIMATE_LIMIT="300", **more)


@pytest.mark.soak
@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: a policy of the lab. Run as root, in a container.")
def test_a_plan_waits_for_the_hosts_memory_that_another_holds_and_says_so(home: Path) -> None:
    """There is a free device for it all the time."""
    env, hold = user(home, "cpu:2x320MiB"), home / "go-on"
    (home / "policy.toml").write_text('host = "600MiB"\n')
    cell = LARGE_CELL.format(more=f"while i == 3 and not os.path.exists({str(hold)!r}): time.sleep(0.02)")
    with running_kernel(env, home) as notebook:
        notebook.check(LARGE_SET_UP)
        assert notebook.run("%%gpufit train --name first --detach\n" + cell).ok
        eventually(lambda: jobs(env)["first"]["state"] == "running")
        sent = notebook.send("%%gpufit train --name second\n" + cell)
        said = notebook.until(sent, "of the host's memory, of which plans may have 600.0 MiB and jobs hold").shown
        first, second = jobs(env)["first"], jobs(env)["second"]
        assert second["state"] == "queued" and "of the host's memory" in second["reason"], (second, said)
        assert "of the host's memory" in gpufit(env, "queue").stdout
        assert first["state"] == "running" and first["device"] == "cpu:0"
        hold.touch()

        assert notebook.finish(sent).ok
        assert notebook.run("%gpufit attach first").ok
        assert jobs(env)["first"]["state"] == jobs(env)["second"]["state"] == "done"
        as_one_cell(notebook, cell, LARGE_SET_UP)


@pytest.fixture(scope="module")
def env(home: Path) -> dict[str, str]:
    return user(home, "cpu:2GiB,cpu:320MiB")


@pytest.fixture
def taken(home: Path, env: dict[str, str]) -> Iterator[Published]:
    """The large device is somebody's who says when they will be done."""
    lab = open_lab(Settings(lab=env["GPUFIT_LAB"]))
    asked, hold = request(1900 * MiB), Hold(devices=("cpu:0",), bytes=1900 * MiB, alone=True)
    holder, now = publish(lab.path, asked, hold), time.time()
    EndNote(lab.path, holder.as_claim(asked, hold).id).tell(End(now + SOME, now + SOME), now)
    yield holder
    holder.drop()


@pytest.mark.slow(12)
def test_now_by_a_plan_where_that_is_done_first(kernel: Kernel, taken: Published) -> None:
    kernel.check(SET_UP)
    cell = CELL.format(rows=5 << 14, more="pass")

    ran = kernel.run("%%gpufit train --name now --fit recompute\n" + cell)  # of two ways the quicker is taken

    assert ran.ok and re.search(
        r"now on cpu:1 by [a-z].*, done in about \S.*; on cpu:0 from \d\d:\d\d as it is, done in about",
        ran.shown,
    ), ran.shown
    assert "running on cpu:1" in ran.shown
    as_one_cell(kernel, cell)


@pytest.mark.slow(10)
@pytest.mark.parametrize(
    ("fit", "loop", "said"),
    [
        ("", "10 ** 6", r"on cpu:0 from \d\d:\d\d as it is, done in about \S.*; now on cpu:1 by [a-z]"),
        ("--fit no", "5", "estimate: "),
    ],
)
def test_later_as_it_is_where_that_is_done_first_or_no_plan_is_wanted(
    kernel: Kernel, env: dict[str, str], taken: Published, fit: str, loop: str, said: str
) -> None:
    kernel.check(SET_UP)
    cell = CELL.format(rows=5 << 14, more="if i == 4: break").replace("range(5)", f"range({loop})")
    name = f"later{len(fit)}"

    sent = kernel.send(f"%%gpufit train --name {name} {fit}\n{cell}")
    shown = kernel.until(sent, "has held cpu:0").shown
    waits = jobs(env)[name]
    taken.drop()
    ran = kernel.finish(sent)

    assert waits["state"] == "queued" and re.search(said, shown), (waits, shown)
    assert ran.ok and "running on cpu:0" in ran.shown
    as_one_cell(kernel, cell)
