"""What a job leaves on the disk is for its owner's eyes, whatever becomes of the directory around it."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.command_line import gpufit, until_ended, until_running
from tests.kernels import Kernel

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
