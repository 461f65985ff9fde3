"""What a shell completes after `gpufit`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.jobs.store import create_job_files
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.terminal.completion import SCRIPTS, at


@pytest.fixture(autouse=True)
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUFIT_DATA", str(tmp_path))
    create_job_files(Settings(data=str(tmp_path)), Job(id="j", name="bert", source="", created=0.0, cwd="/"))


def test_verbs_options_and_jobs() -> None:
    assert at(["re"]) == ["release", "resume"] and "train" not in at([""]) and "kernel" not in at([])
    assert at(["stop", "b"]) == ["bert"] and at(["status", "--j"]) == ["--json"]
    assert at(["completion", "f"]) == ["fish"] and at(["run", "--", "py"]) == []


@pytest.mark.slow(1)
def test_bash_asks_for_it(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    gpufit = tmp_path / "gpufit"
    gpufit.write_text(f'#!/bin/sh\nexec {sys.executable} -m jupyter_gpufit.terminal.cli "$@"\n')
    gpufit.chmod(0o755)
    typed = 'COMP_WORDS=(gpufit stop be); COMP_CWORD=2; _gpufit; echo "${COMPREPLY[@]}"'
    found = subprocess.run(
        [bash, "-c", f"export PATH={tmp_path}:$PATH; {SCRIPTS['bash']}\n{typed}"], capture_output=True, text=True
    )
    assert found.stdout == "bert\n", found.stderr
