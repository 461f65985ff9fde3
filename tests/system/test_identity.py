from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace

from jupyter_gpufit.system.identity import ProcessId, start_time_of


def _sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


def test_a_process_is_known_while_it_lives_and_not_afterwards() -> None:
    with _sleeper() as process:
        found = ProcessId.of(process.pid)
        assert found is not None and found.alive()
        process.kill()
        process.wait()
    assert not found.alive()
    assert found.open() is None


def test_a_zombie_has_ended() -> None:
    with _sleeper() as process:
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # ended, and not yet reaped
        assert start_time_of(process.pid) is None


def test_a_reused_pid_is_never_signalled() -> None:
    with _sleeper() as process:
        found = ProcessId.of(process.pid)
        assert found is not None
        stranger = replace(found, start_time=found.start_time - 1)
        before_reboot = replace(found, boot="another")

        assert not stranger.signal(signal.SIGKILL)
        assert not before_reboot.signal(signal.SIGKILL)
        assert process.poll() is None

        assert found.signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
