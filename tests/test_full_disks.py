"""A training on a disk that has next to no room, or has stopped to take anything: what it made comes back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from jupyter_gpufit.jobs.events import Note
from jupyter_gpufit.jobs.journal import JournalReader
from jupyter_gpufit.jobs.paths import JobPaths
from jupyter_gpufit.jobs.store import find_job
from jupyter_gpufit.jobs.watch import changes
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.units import KiB
from tests.command_line import jobs
from tests.disks import small_disk
from tests.kernels import TIMEOUT, Kernel, environment, running_kernel

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_worker_outlives_its_test")]


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A disk of one MiB."""
    with small_disk(tmp_path_factory.mktemp("disk"), "1m,mode=700") as disk:
        yield disk


@pytest.fixture(scope="module")
def env(home: Path, disk: Path) -> dict[str, str]:
    """Of a user whose jobs are on that disk."""
    return environment(home, GPUFIT_DATA=str(disk), GPUFIT_SPARE_WORKER="1", GPUFIT_ESTIMATE_LIMIT="0")


@pytest.fixture(scope="module")
def kernel(home: Path, env: dict[str, str]) -> Iterator[Kernel]:
    with running_kernel(env, home) as kernel:
        yield kernel


def leave_free(disk: Path, room: int) -> None:
    """Fill the disk, but for so many bytes."""
    filler = disk / "filler"
    filler.unlink(missing_ok=True)
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, os.statvfs(disk).f_bavail * os.statvfs(disk).f_bsize - room))


STEPS = "for step in range(200):\n    weights += 1; print('step', step)\n"


@pytest.mark.parametrize("room", [28 * KiB, 32 * KiB, 36 * KiB, 60 * KiB])
def test_what_was_trained_comes_back_however_little_room_there_was(
    kernel: Kernel, disk: Path, env: dict[str, str], room: int
) -> None:
    kernel.check("import torch\nweights = torch.zeros(3)")
    leave_free(disk, room)
    name = f"tight-{room // KiB}"
    ran = kernel.check(f"%%gpufit train --name {name}\n" + STEPS)
    kernel.check("assert weights.tolist() == [200, 200, 200] and step == 199")
    assert "nearly full" in ran.shown and "gpufit clean" in ran.shown  # said at the start
    (disk / "filler").unlink()
    assert jobs(env)[name]["state"] == "done"


@pytest.mark.parametrize("room", [12 * KiB, 20 * KiB])
def test_where_no_worker_could_begin_it_is_said_in_the_cell(kernel: Kernel, disk: Path, room: int) -> None:
    leave_free(disk, room)
    ran = kernel.run("%%gpufit train --name none\nprint('began')\n")
    assert ran.ename == "StorageError" and "No space left" in ran.evalue and "began" not in ran.stdout


FILL = (  # each byte, so that not even what fits into a block that is there already can be written
    "import os\nwith open({filler!r}, 'wb', buffering=0) as file:\n"
    "    try:\n        while True: file.write(bytes(512))\n    except OSError: pass\n"
)


def test_a_failed_cell_on_a_disk_that_was_filled_meanwhile_shows_its_error(
    kernel: Kernel, disk: Path, env: dict[str, str]
) -> None:
    kernel.check("import torch\nweights = torch.zeros(3)")
    leave_free(disk, 300 * KiB)
    kernel.check("import os; held = []")
    ran = kernel.run(
        "%%gpufit train --name filled\n"
        + FILL.format(filler=str(disk / "more"))
        + STEPS
        + "raise KeyError('at the end')\n"
    )
    assert ran.ename == "KeyError" and "at the end" in ran.traceback
    kernel.check("assert weights.tolist() == [200, 200, 200] and step == 199")


def test_variables_that_nobody_waits_for_are_on_the_disk_once_it_has_room(
    kernel: Kernel, disk: Path, env: dict[str, str]
) -> None:
    kernel.check("import torch\nweights = torch.zeros(50_000)")
    leave_free(disk, 100 * KiB)
    kernel.check("%%gpufit train --detach --name alone\nweights += 1\n")
    _, paths = find_job(Settings(data=str(disk)), "alone")
    anyio.run(said, paths, "cannot be saved")
    (disk / "filler").unlink()
    anyio.run(until_gone, paths)
    assert (paths.result / "reply.graph").exists() and jobs(env)["alone"]["state"] == "done"
    kernel.check("%gpufit attach alone")
    kernel.check("assert weights.unique().tolist() == [1]")


async def said(paths: JobPaths, words: str) -> None:
    """Until the job's journal has a note of these words."""
    reader = JournalReader(paths.journal)
    with anyio.fail_after(TIMEOUT):
        async with changes(paths) as looks:
            async for _ in looks:
                if any(words in entry.event.text for entry in reader.read() if isinstance(entry.event, Note)):
                    return reader.close()


async def until_gone(paths: JobPaths) -> None:
    """Until the job's worker has ended."""
    with anyio.fail_after(TIMEOUT):
        async with changes(paths) as looks:
            async for record in looks:
                if record.worker is not None and not record.worker.alive():
                    return
