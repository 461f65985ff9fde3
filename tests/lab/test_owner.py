"""Whose lock it is, from what the kernel tells."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_gpufit.devices.device import Process
from jupyter_gpufit.lab import ledger, published
from jupyter_gpufit.lab.grant import sort_out
from jupyter_gpufit.lab.locks import flock_holders, parse_flocks, parse_write_locks
from jupyter_gpufit.lab.owner import covered, held_by_owner, is_stopped, this_process
from jupyter_gpufit.lab.record import Hold, TicketWriter
from jupyter_gpufit.system.identity import start_time_of
from jupyter_gpufit.testing import fake_device
from jupyter_gpufit.units import GiB
from tests.lab.values import ADA, EVE, request

HERE, ELSEWHERE = 1, 2
WRITER = TicketWriter(pid=7, start_time=1, boot="b", view=HERE)


def test_the_kernels_list_of_locks_is_read() -> None:
    text = """\
1: FLOCK  ADVISORY  WRITE 29749 00:1b:18434 0 EOF
1: -> FLOCK  ADVISORY  WRITE 29750 00:1b:18434 0 EOF
2: POSIX  ADVISORY  WRITE 29751 fe:00:18434 0 EOF
3: FLOCK  ADVISORY  READ 29752 fe:00:99 0 EOF
4: FLOCK  ADVISORY  READ 29753 fe:00:99 0 EOF
5: LEASE  ACTIVE    READ 29754 fe:00:98 0 EOF
"""
    assert parse_write_locks(text + "6: OFDLCK ADVISORY  WRITE -1 00:1b:5 0 EOF\n") == {(os.makedev(0, 0x1B), 5)}
    assert parse_write_locks("7: OFDLCK ADVISORY  READ -1 00:1b:5 0 EOF") == set()
    assert parse_flocks(text) == {
        (os.makedev(0, 0x1B), 18434): [29749],
        (os.makedev(0xFE, 0), 99): [29752, 29753],
    }


def test_our_own_lock_is_in_it(tmp_path: object) -> None:
    import fcntl
    import tempfile

    with tempfile.TemporaryFile() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        found = os.fstat(file.fileno())
        assert flock_holders()[found.st_dev, found.st_ino] == [this_process().pid]


@pytest.mark.parametrize(
    ("pids", "view", "processes", "held"),
    [
        ([7], HERE, {7: ADA}, True),  # the usual case
        ([7], HERE, {}, True),  # the writer is dead, and its orphan has the lock; or it is hidden from us
        ([], HERE, {}, True),  # held in another pid namespace, or just let go: who does not know says "held"
        ([8], HERE, {8: EVE}, False),  # a stranger took it after the writer's death
        ([8], HERE, {}, False),  # a stranger's orphan: our kernel would name the writer
        ([8], HERE, {8: ADA}, False),  # the owner again, from another process: a claim is not brought back to life
        ([7], HERE, {7: EVE}, False),  # a stranger was given the dead writer's number, and took the lock
        ([8], ELSEWHERE, {8: ADA}, True),  # pids cannot be compared: the owner's process will do
        ([8], ELSEWHERE, {}, True),
        ([8], ELSEWHERE, {8: EVE}, False),
        ([8], 0, {8: ADA}, True),
    ],
)
def test_only_proof_of_a_stranger_ends_a_claim(
    pids: list[int], view: int, processes: dict[int, int], held: bool
) -> None:
    assert held_by_owner(WRITER, ADA, pids, view=view, uid_of=processes.get, started=lambda _: 2) is held


def test_children_of_a_holder_are_covered_by_its_claim() -> None:
    child = os.fork()
    if child == 0:
        import signal

        signal.pause()
    try:
        assert covered([child, 1], {os.getpid(): "mine"}) == {child: "mine"}
        assert covered([2**31 - 1], {os.getpid(): "mine"}) == {}
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


@pytest.mark.parametrize(
    ("as_written", "is_it"),
    [({}, True), ({"start_time": 0}, True), ({"start_time": 1}, False), ({"view": 12345}, False)],
    ids=["the writer", "of an unknown start", "a later process of its number", "of a container, where numbers differ"],
)
def test_memory_and_stops_are_its_writers_beyond_doubt(
    as_written: dict[str, int], is_it: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer's child may hold the claim when the writer is dead and its number has come again, to the same user."""
    process = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    try:
        whole = replace(this_process(), pid=process.pid, start_time=start_time_of(process.pid) or 0)
        writer = replace(whole, **as_written)  # type: ignore[arg-type]
        monkeypatch.setattr(published, "this_process", lambda: writer)
        file = published.publish(tmp_path, request(4 * GiB), Hold(devices=("GPU-a",), bytes=4 * GiB, alone=False))
        [claim] = ledger.LedgerReader(tmp_path).read().claims
        file.drop()
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        device = fake_device("GPU-a", total=10 * GiB, processes=(Process(process.pid, "ada", 4 * GiB),))

        [space] = sort_out([device], [claim])

        assert (not space.strangers, is_stopped(claim)) == (is_it, is_it)
    finally:
        process.kill()
        process.communicate()
