"""`gpufit jobs | head -1`: who reads no further gets no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels import Kernel, environment

pytestmark = pytest.mark.slow


def piped(env: dict[str, str], *arguments: str) -> tuple[int, str]:
    """The command's exit code and complaints, where its output is closed already."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        command = [sys.executable, "-m", "jupyter_gpufit.terminal.cli", *arguments]
        ran = subprocess.run(command, env=env, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=120)
    finally:
        os.close(writing)
    return ran.returncode, ran.stderr


@pytest.mark.parametrize("arguments", [("--help",), ("move", "--help"), ("jobs",)], ids=" ".join)
def test_of_a_page_or_table(arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert piped(environment(tmp_path), *arguments) == (0, "")


@pytest.mark.slow(10)
def test_of_a_jobs_output(kernel: Kernel, env: dict[str, str]) -> None:
    kernel.check("%%gpufit train --name told\nfor i in range(5): print(i)\n")

    code, said = piped(env, "attach", "told")
    assert code == 0 and "Error" not in said, said
