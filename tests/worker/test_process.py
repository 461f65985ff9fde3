"""What the cell has started ends with it, as far as it may be ended."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import psutil
import pytest

from jupyter_gpufit.worker import process

pytestmark = pytest.mark.slow


def test_a_child_that_may_not_be_ended_spares_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    another_users, ours = (subprocess.Popen(["sleep", "600"]) for _ in range(2))  # one by sudo, say

    def refused(ask: Callable[[psutil.Process], None]) -> Callable[[psutil.Process], None]:
        def signal(process: psutil.Process) -> None:
            if process.pid == another_users.pid:
                raise psutil.AccessDenied(process.pid)
            ask(process)

        return signal

    def started(process: subprocess.Popen[bytes]) -> psutil.Process:
        return psutil.Process(process.pid)

    try:
        with monkeypatch.context() as patched:
            patched.setattr(process, "PATIENCE", 0.1)
            # Not all of this process's, which other tests may have started.
            patched.setattr(psutil.Process, "children", lambda _, recursive: [started(another_users), started(ours)])
            for verb in ("terminate", "kill"):
                patched.setattr(psutil.Process, verb, refused(getattr(psutil.Process, verb)))
            process.end_children()
        ours.wait(60)
        assert another_users.poll() is None
    finally:
        for one in (another_users, ours):
            one.kill()
            one.wait()
