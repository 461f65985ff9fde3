"""Other users of this machine: who may start what, and the lab that all of them share."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from tests.people import make_shared, need_root


@cache
def as_user(uid: int) -> tuple[str, ...]:
    """What stands before a command that this user runs."""
    need_root()
    become = ("setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups")
    see = ("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search")
    # Python itself may lie where only root can read.
    for command in ((*become, "--"), (*become, *see, "--")):
        if shutil.which("setpriv") and _starts(command):
            return command
    pytest.skip("NOT TESTED: what users see of each other. Install util-linux, and Python where all users can read it.")


def _starts(command: tuple[str, ...]) -> bool:
    tried = [*command, sys.executable, "-c", "import jupyter_gpufit"]
    return subprocess.run(tried, cwd="/", stderr=subprocess.DEVNULL).returncode == 0


@contextmanager
def lab_directory() -> Iterator[dict[str, str]]:
    """Settings of a lab that all users share, on tmpfs; of a private one where that cannot be had."""
    if os.geteuid() != 0:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="gpufit-test-", dir="/dev/shm") as folder:
        os.chmod(folder, 0o755)
        shared = Path(folder, "lab")
        make_shared(shared)
        yield {"GPUFIT_LAB": str(shared)}
