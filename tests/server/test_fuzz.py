"""The API, asked for everything its description allows and for much that it does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_gpufit.jobs.events import Failure, Text
from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.jobs.journal import Journal
from jupyter_gpufit.jobs.store import create_job_files
from jupyter_gpufit.settings import Settings
from tests.server.running import TOKEN, Server

# The journal of a job that is there; all other ids are made up. Jupyter answers 403 where others answer 401.
CONFIG = """
checks.missing_required_header.enabled = false
[[operations]]
include-name = "GET /jobs/{id}/journal"
parameters = { id = "known" }
"""


@pytest.mark.slow(16)
@pytest.mark.parametrize("examples", [8, pytest.param(100, marks=pytest.mark.soak)])  # for each route
def test_it_answers_as_it_says(examples: int, server: Server, home: Path, tmp_path: Path) -> None:
    settings = Settings(data=f"{home}/.local/share/gpufit")
    paths = create_job_files(settings, Job(id="known", name="known", source="", created=0.0, cwd="/"))
    journal = Journal(paths.journal, 1 << 20)
    journal.append([Text("stdout", "\ud800 <b>"), Failure("E", "v", ("t",))] * 50)
    journal.close()
    config = tmp_path / "schemathesis.toml"
    config.write_text(CONFIG)
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config)),
        *("run", f"{server.url}/openapi.json", "--url", server.url),
        *("--header", f"Authorization: token {TOKEN}", "--max-examples", str(examples), "--seed", "1"),
        *("--phases", "examples,coverage,fuzzing", "--request-timeout", "20", "--no-color"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=1200)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert not any("Traceback" in line or "ServerApp] 500 " in line for line in server.log), "".join(server.log[-40:])
