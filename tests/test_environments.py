"""Kernels in environments of their users': of the same version, of another one that speaks otherwise, and without us.

Real virtual environments. What they share with these tests' own is found through a .pth file, so that each costs
nothing; jupyter_gpufit itself is theirs, or is not there.
"""

from __future__ import annotations

import re
import shutil
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from jupyter_gpufit.actions.buttons import on_job
from jupyter_gpufit.errors import VersionDiffers
from jupyter_gpufit.examine.lab.everyone import BLOCK
from jupyter_gpufit.examine.user.environments import PACKAGE
from jupyter_gpufit.jobs.record import read_record
from jupyter_gpufit.jobs.store import find_job
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.system.processes import PACKAGE as HERE
from jupyter_gpufit.system.version import version
from tests.command_line import gpufit, jobs, kill_workers, until_ended, until_running
from tests.kernels import environment, running_kernel

pytestmark = pytest.mark.slow(15)
CELL = """%%gpufit train --name {name} --memory 512MiB --detach
import os, sys, time
for step in range(10**9):
    print(sys.modules["jupyter_gpufit"].__file__)
    while not os.path.exists({hold!r}): time.sleep(0.02)
    if step == 20: break
"""


def made(folder: Path, *, says: str = "") -> str:
    """A virtual environment with jupyter_gpufit, or of another version and protocol; its Python."""
    venv.create(folder, symlinks=True)
    [site] = folder.glob("lib/python3*/site-packages")
    ours = Path(HERE) / PACKAGE
    shutil.copytree(ours, site / PACKAGE, ignore=shutil.ignore_patterns("_labextension"))
    if says:
        protocol = site / PACKAGE / "jobs" / "protocol.py"
        protocol.write_text(protocol.read_text().replace("\nPROTOCOL = 1\n", "\nPROTOCOL = 2\n"))
        (site / f"{PACKAGE}-{says}.dist-info").mkdir()
        (site / f"{PACKAGE}-{says}.dist-info" / "METADATA").write_text(f"Name: {PACKAGE}\nVersion: {says}\n")
    return without_us(folder)


def without_us(folder: Path) -> str:
    """One with all that these tests have, but us."""
    if not folder.exists():
        venv.create(folder, symlinks=True)
    [site] = folder.glob("lib/python3*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_path("purelib"))
    return str(folder / "bin" / "python")


@pytest.fixture(autouse=True)
def _elsewhere(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python finds what lies in the working directory, which here would be us."""
    monkeypatch.chdir(home)


@pytest.fixture(scope="module")
def env(home: Path) -> Iterator[dict[str, str]]:
    yield environment(home, GPUFIT_ESTIMATE_LIMIT="0")
    kill_workers(home)


def mine(env: dict[str, str], home: Path, name: str) -> tuple[Settings, str]:
    """The settings of the user, and the command line of their job's worker."""
    settings = Settings(data=str(home / ".local/share/gpufit"), devices=env["GPUFIT_DEVICES"])
    worker = read_record(find_job(settings, name)[1]).worker
    assert worker is not None
    return settings, Path(f"/proc/{worker.pid}/cmdline").read_text()


def test_a_job_of_another_environment_of_our_version_is_saved_and_goes_on_there(
    home: Path, env: dict[str, str]
) -> None:
    python, hold = made(home / "theirs"), home / "go-on"
    with running_kernel(env, home, python=python) as kernel:
        kernel.check(CELL.format(name="bert", hold=str(hold)))
        anyio.run(until_running, home, "bert")

    released = gpufit(env, "release", "bert")
    assert "released" in released.stdout, released
    resumed = gpufit(env, "resume", "bert")
    assert "runs on cpu" in resumed.stdout, resumed
    assert mine(env, home, "bert")[1].startswith(f"{python}\0"), "in the environment in which it began"
    hold.touch()
    anyio.run(until_ended, home, "bert")
    printed = [line for line in gpufit(env, "attach", "bert").stdout.splitlines() if line.startswith("/")]
    assert len(printed) >= 21 and all(line.startswith(f"{home}/theirs/") for line in printed), set(printed)


def test_of_another_protocol_it_says_both_versions_and_can_be_stopped(home: Path, env: dict[str, str]) -> None:
    python, hold = made(home / "newer", says="9.9.0"), home / "never"
    with running_kernel(env, home, python=python) as kernel:
        kernel.check(CELL.format(name="gnn", hold=str(hold)))
        anyio.run(until_running, home, "gnn")
    both = f"gnn runs under jupyter_gpufit 9.9.0, and what asks it has {version()}"

    asked = gpufit(env, "checkpoint", "gnn")
    assert asked.returncode == 2 and both in asked.stderr and "Traceback" not in asked.stderr

    async def button() -> None:
        settings = mine(env, home, "gnn")[0]
        async for _ in on_job(settings, find_job(settings, "gnn")[0].id, "release", ""):
            pass

    with pytest.raises(VersionDiffers, match=re.escape(both)):
        anyio.run(button)
    with running_kernel(env, home) as kernel:
        ran = kernel.run("%gpufit attach gnn")
    assert both in ran.stdout + ran.stderr + ran.evalue and "Traceback" not in ran.stderr + ran.traceback
    assert jobs(env)["gnn"]["state"] == "running" and "gnn" in gpufit(env, "status").stdout
    stopped = gpufit(env, "stop", "gnn")
    assert stopped.stdout.splitlines() == ["gnn: interrupted", "gnn: ended"], "as between equals, and not by a signal"


def test_a_kernel_without_the_package_says_how_to_have_it(home: Path, env: dict[str, str]) -> None:
    python, profile = without_us(home / "without"), home / "ipython" / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    (profile / "ipython_kernel_config.py").write_text(BLOCK)
    with running_kernel(env, home, load=False, python=python) as kernel:
        for cell in ("%%gpufit train\nprint('here')", "%gpufit status"):
            ran = kernel.run(cell)
            assert not ran.stdout and not ran.traceback and "Traceback" not in ran.stderr
            said = f"({home}/without) has no jupyter_gpufit. In a terminal: {python} -m pip install"
            assert said in ran.stderr, ran
        assert kernel.run("%who").stdout == "Interactive namespace is empty.\n"
    (profile / "ipython_kernel_config.py").unlink()
