from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_gpufit.lab.owner import covered, started, uid_of
from jupyter_gpufit.lab.processes import processes_holding, processes_with
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


def test_processes_may_be_called_anything() -> None:
    """Also what is no text, as a long name is that the kernel cuts within a letter."""
    called = "import ctypes; ctypes.CDLL(None).prctl(15, b'\\xff ) (\\x85\\x0cS'); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", called], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        found = ProcessId.of(process.pid)
        assert found is not None and found.alive()
        assert uid_of(process.pid) == os.getuid() and started(process.pid) == found.start_time
        assert covered([process.pid], {os.getpid(): "ours"}) == {process.pid: "ours"}
        with tempfile.NamedTemporaryFile() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            assert [holder.pid for holder in processes_with(Path(file.name))] == [os.getpid()]
            assert [one.pid for one in processes_holding(Path(file.name), os.getuid())] == [os.getpid()]
        process.kill()


def test_a_process_that_may_not_be_looked_into_is_none_of_ours() -> None:
    """Under hidepid=1, where a number of ours has gone to somebody else's process."""
    program = (
        "import os, sys\n"
        "from jupyter_gpufit.system.identity import ProcessId, boot_id\n"
        "os.setgroups([]), os.setgid(61067), os.setuid(61067)\n"
        "pid = int(sys.argv[1])\n"
        "found = ProcessId(pid, 5, boot_id())\n"
        "print(found.alive(), found.open(), ProcessId.of(pid), os.path.exists(f'/proc/{pid}'))\n"
    )
    hidden = "mount --make-rprivate / && mount -t proc -o hidepid=1 proc /proc"
    with _sleeper() as process:
        inside = ["unshare", "--mount", "sh", "-c", f'{hidden} || exit 77; exec "$@"', "sh"]
        answer = subprocess.run(
            [*inside, sys.executable, "-c", program, str(process.pid)], capture_output=True, text=True
        )
        process.kill()
    if answer.returncode in (1, 77) and "ermi" in answer.stderr and "Traceback" not in answer.stderr:
        pytest.skip(f"NOT TESTED: hidepid, because /proc cannot be mounted here ({answer.stderr}).")
    assert answer.stdout.split() == ["False", "None", "None", "True"], answer.stderr
