"""How a job is given away: to a process that waits, to the next image of this one, and to a resume years later."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

from jupyter_gpufit.engine.local import environment_of
from jupyter_gpufit.jobs.handover import Handover, HeldClaim, kept, note_start, noted_start, receive, send
from jupyter_gpufit.jobs.paths import JobPaths
from jupyter_gpufit.system.processes import reproducible, with_patient_threads, with_quick_copies

GIVEN = Handover(
    job_root="/jobs/abc234", cwd="/work", path=["/work"], env={"A": "b", "GPUFIT_LAB": "/old"}, cell_number=7
)

# Becomes another image, which says what it was left and which of the descriptors are there.
BECOME = """
import os, sys
from jupyter_gpufit.jobs import handover as h
open_ones = [os.memfd_create(name) for name in ("lock", "memory", "claim", "left", "driver")]
os.set_inheritable(open_ones[4], True)
given = h.Handover(job_root="/jobs/abc234", cwd="/", path=[], env={}, cell_number=7, resumes=True, lock=open_ones[0],
    memory=[open_ones[1]], claim=h.HeldClaim("c.1", open_ones[2]), left=h.HeldClaim("c.2", open_ones[3]))
sys.executable, real = sys.argv[1], sys.executable
h.become(given, {**os.environ, "REAL": real})
"""
NEXT = """#!/bin/sh
exec "$REAL" -c '
import os, sys
from jupyter_gpufit.jobs.handover import kept
given = kept(int(sys.argv[-1]))
names = sorted(os.readlink(f"/proc/self/fd/{fd}").split(":")[-1].split(" ")[0] for fd in os.listdir("/proc/self/fd")
    if os.path.exists(f"/proc/self/fd/{fd}") and "memfd" in os.readlink(f"/proc/self/fd/{fd}"))
print(os.getpid(), given.cell_number, given.resumes, *names)
print(*(os.readlink(f"/proc/self/fd/{fd}").split(":")[1].split(" ")[0]
    for fd in (given.lock, *given.memory, given.claim.fd, given.left.fd)), given.claim.id, given.left.id)
' "$@"
"""


def test_a_waiting_process_gets_the_job_with_its_descriptors(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    fds = [os.open(tmp_path, os.O_RDONLY), os.memfd_create("memory")]
    with ours, theirs:
        send(ours, Handover(**{**vars(GIVEN), "lock": fds[0], "memory": fds[1:]}))
        found = receive(theirs)
    assert found is not None and (found.cwd, found.path, found.env["A"]) == ("/work", ["/work"], "b")
    assert os.path.samestat(os.fstat(found.lock), os.fstat(fds[0])) and len(found.memory) == 1
    for fd in (*fds, found.lock, *found.memory):
        os.close(fd)


def test_the_next_image_of_a_process_has_what_was_left_to_it_and_nothing_else(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text(NEXT)
    program.chmod(0o700)
    process = subprocess.Popen([sys.executable, "-c", BECOME, str(program)], stdout=subprocess.PIPE, text=True)
    out, _ = process.communicate(timeout=60)
    said, found = out.splitlines()
    assert said == f"{process.pid} 7 True claim left lock memory"  # the record was read, the driver's is closed
    assert found == "lock memory claim left c.1 c.2"


def test_what_a_resume_needs_stays_with_the_job_for_its_owner_only(tmp_path: Path) -> None:
    paths = JobPaths(tmp_path)
    note_start(paths, Handover(**{**vars(GIVEN), "lock": 5, "memory": [6], "needed": 100, "foreseen": 90}))
    assert stat.S_IMODE(paths.start.stat().st_mode) == 0o600
    found = noted_start(paths)
    assert (found.lock, found.memory, found.needed, found.python) == (-1, [], 100, sys.executable)
    assert found.foreseen == 90  # drawn beside what is used, also after a move or a resume
    assert json.loads(paths.start.read_text())["format"] == 1
    paths.start.write_text(json.dumps(json.loads(paths.start.read_text()) | {"colour": "red"}))
    assert noted_start(paths) == found  # what a later version added is passed over


def test_a_resumed_job_has_its_own_environment_and_the_settings_of_whoever_resumes() -> None:
    found = environment_of(GIVEN)
    assert found["A"] == "b" and found.get("GPUFIT_LAB") == os.environ.get("GPUFIT_LAB")


def test_a_worker_hashes_and_multiplies_as_the_one_before_it() -> None:
    assert reproducible({})["PYTHONHASHSEED"] == reproducible({"PYTHONHASHSEED": "random"})["PYTHONHASHSEED"] == "0"
    assert reproducible({"PYTHONHASHSEED": "42", "CUBLAS_WORKSPACE_CONFIG": ":16:8"}) == {
        "PYTHONHASHSEED": "42",
        "CUBLAS_WORKSPACE_CONFIG": ":16:8",
    }
    assert reproducible({})["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"


def test_large_copies_go_past_the_caches_unless_its_user_has_decided() -> None:
    name = "glibc.cpu.x86_non_temporal_threshold"
    assert with_quick_copies({"A": "b"}) == {"A": "b", "GLIBC_TUNABLES": f"{name}=0x400000"}
    own = {"GLIBC_TUNABLES": "glibc.malloc.check=1"}
    assert with_quick_copies(own)["GLIBC_TUNABLES"] == f"glibc.malloc.check=1:{name}=0x400000"
    assert with_quick_copies(own := {"GLIBC_TUNABLES": f"{name}=0x5000"}) == own


def test_threads_sleep_between_two_operations_unless_its_user_has_decided() -> None:
    assert with_patient_threads({"A": "b"}) == {"A": "b", "OMP_WAIT_POLICY": "PASSIVE"}
    assert with_patient_threads(own := {"OMP_WAIT_POLICY": "ACTIVE"}) == own


def test_a_record_that_was_kept_is_read_once() -> None:
    record = os.memfd_create("record")
    os.write(record, json.dumps({**vars(GIVEN), "claim": {"id": "c.1", "fd": os.dup(0)}}).encode())
    found = kept(record)
    assert found.claim is not None and found.claim == HeldClaim("c.1", found.claim.fd)
    os.close(found.claim.fd)
