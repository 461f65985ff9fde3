"""A lab that is emptied while jobs run and wait: everybody is in it again, and nothing is given away twice."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import pytest

from jupyter_gpufit.errors import ClaimGone, LabGone
from jupyter_gpufit.lab import Granted, Lab, adopt, again, claim, digest, directory, holder, locks, open_lab, queue
from jupyter_gpufit.lab.again import nameless_waits
from jupyter_gpufit.lab.holder import keep
from jupyter_gpufit.lab.ledger import LedgerReader
from jupyter_gpufit.lab.locks import lock_for_life
from jupyter_gpufit.lab.policy import Policy
from jupyter_gpufit.lab.published import publish
from jupyter_gpufit.lab.quanta import ends_at_the_earliest
from jupyter_gpufit.lab.record import Hold
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.units import GiB
from tests.lab.claimants import Machine, jobs, left
from tests.lab.conftest import make_shared
from tests.lab.values import request, slots

pytestmark = pytest.mark.anyio
WHOLE = request(4 * GiB, name="whole")
look = Machine(slots(4)).look


def empty(lab: Lab) -> None:
    """As `rm -r /run/gpufit/*` does."""
    for path in lab.path.iterdir():
        path.unlink()


@dataclass
class Ear:
    """What a holder is told."""

    lines: list[str] = field(default_factory=list)
    told: anyio.Event = field(default_factory=anyio.Event)

    def hear(self, line: str) -> None:
        self.lines.append(line)
        self.told.set()

    async def until(self, wanted: str) -> None:
        with anyio.fail_after(300):
            while not any(wanted in line for line in self.lines):
                self.told = anyio.Event()
                await self.told.wait()


@asynccontextmanager
async def held_and_kept(lab: Lab, ear: Ear) -> AsyncIterator[Granted]:
    """A job of this process that looks after its claim."""
    async with claim(lab, WHOLE, look) as granted, anyio.create_task_group() as group:
        group.start_soon(keep, granted, ear.hear)
        await anyio.lowlevel.checkpoint()
        yield granted
        group.cancel_scope.cancel()


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "RETRY", 0.01)
    monkeypatch.setattr(holder, "PAUSE", 0.01)


async def test_a_holder_comes_back_with_its_turn_as_it_was_and_nobody_starts_meanwhile(lab: Lab, soon: None) -> None:
    ear = Ear()
    policy = Policy(default={"quantum": 60.0})
    async with jobs(lab, Machine(slots(4))) as here, held_and_kept(lab, ear) as granted:
        waiting = await here.waiting(4)
        reader, before = LedgerReader(lab.path), granted.claim
        assert reader.read().claims == (before,)

        empty(lab)
        assert reader.read().claims == (before,), "whoever knew it sees that its lock is held"
        await ear.until("it is claimed again")
        assert not waiting.started.is_set()
        assert [one.id for one in reader.read().claims] == [granted.claim.id]
        assert LedgerReader(lab.path).read().claims == (granted.claim,)
        assert ends_at_the_earliest(granted.claim, policy) == ends_at_the_earliest(before, policy)
        assert ear.lines == [f"Somebody emptied the lab {lab.path}. You hold cpu:0 as before: it is claimed again."]


async def test_a_holder_is_back_at_once_however_seldom_it_looks(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holder, "PAUSE", 300.0)
    ear = Ear()
    async with held_and_kept(lab, ear) as granted:
        empty(lab)
        with anyio.fail_after(300):
            await ear.until("it is claimed again")
        assert [one.id for one in LedgerReader(lab.path).read().claims] == [granted.claim.id]


async def test_a_lab_that_is_gone_is_waited_for_by_holders_and_waiters(lab: Lab, soon: None) -> None:
    ear = Ear()
    shared = replace(lab, shared=True)
    async with jobs(shared, Machine(slots(4))) as here:
        async with held_and_kept(shared, ear):
            waiting = await here.waiting(4)
            shutil.rmtree(lab.path)
            said = (await waiting.until_it_waits_for("trouble")).remark
            assert "gone: somebody emptied it. An administrator makes it again: sudo gpufit lab init" in said
            await ear.until("claimed again as soon as the lab is there")

            lab.path.mkdir()
            make_shared(lab.path)
            await ear.until("it is claimed again")
            assert (await waiting.until_it_waits_for("held")).holders[0].what.startswith("whole")
        await waiting.until_it_started()
    assert left(lab) == set()


async def test_a_claim_that_moves_through_an_emptied_lab_is_there_again(lab: Lab) -> None:
    async with claim(lab, WHOLE, look) as granted:
        empty(lab)
        async with adopt(lab, granted.claim.id, os.dup(granted.fds[0]), look) as adopted:
            assert LedgerReader(lab.path).read().claims == (adopted.claim,)


@pytest.fixture
def own_lab(tmp_path: Path) -> Iterator[Lab]:
    """A lab that is a file system of its own, as `gpufit lab init` makes it."""
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"NOT TESTED: cannot mount a tmpfs here ({mounted.stderr.decode().strip()})")
    make_shared(tmp_path)
    yield Lab(tmp_path, shared=True)
    subprocess.run(["umount", "-l", tmp_path], check=True)


async def test_who_comes_new_into_an_emptied_lab_waits_for_those_who_hold(own_lab: Lab, soon: None) -> None:
    ear = Ear()
    async with claim(own_lab, WHOLE, look) as granted:
        empty(own_lab)
        make_shared(own_lab.path)
        async with jobs(own_lab, Machine(slots(4))) as here:
            new = await here.waiting(4, why="trouble")
            assert "those who hold devices are about to say so again" in new.waits[-1].remark
            async with anyio.create_task_group() as group:
                group.start_soon(keep, granted, ear.hear)
                assert (await new.until_it_waits_for("held")).holders[0].what.startswith("whole")
                group.cancel_scope.cancel()


async def test_who_never_comes_back_is_waited_for_once(
    own_lab: Lab, soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(again, "COMEBACK", 0.1)
    async with claim(own_lab, WHOLE, look):
        empty(own_lab)
        make_shared(own_lab.path)
        async with jobs(own_lab, Machine(slots(4))) as here:
            new = await here.waiting(4, why="trouble")
            await new.until_it_started()


@contextmanager
def nameless(lab: Lab) -> Iterator[None]:
    """What anybody can do: keep the lock of a file that never had a name."""
    fd = os.open(lab.path, os.O_TMPFILE | os.O_RDWR)
    try:
        assert lock_for_life(fd)
        yield
    finally:
        os.close(fd)


async def test_a_lock_that_anybody_keeps_costs_a_user_seconds_once_and_not_each_job(
    own_lab: Lab, soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(again, "COMEBACK", 0.1)
    monkeypatch.setattr(again, "FORGIVEN", 1e9)  # so short a wait would be forgiven by the time of the second job
    with nameless(own_lab):
        async with jobs(own_lab, Machine(slots(4))) as here:
            first = await here.waiting(4, why="trouble")
            await first.until_it_started()
        with nameless(own_lab):  # another one each time would cost no more
            async with jobs(own_lab, Machine(slots(4))) as here:
                second = await here.running(4)
                assert second.waits == []


def test_what_was_waited_for_is_forgiven_second_by_minute_and_no_line_can_break_it() -> None:
    lines = [{"nameless": 10, "at": 1000.0}, {"nameless": 3, "at": 1300.0}, {"nameless": "x", "at": None}, {"owed": {}}]
    text = b"\n".join([*(json.dumps(line).encode() for line in lines), b'["nameless"]', b'{"nameless": NaN, "at": 1}'])
    assert nameless_waits(text, 1000.0) == 10
    assert nameless_waits(text, 1300.0) == 5
    assert nameless_waits(text, 4000.0) == 0
    kept = digest.shorter(b"\n".join(text.splitlines()[:2]), 1 << 16)
    assert nameless_waits(kept, 1300.0) == 3, "a record that was made shorter has the last"


def test_a_machines_lab_that_is_gone_is_no_private_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared, rule = tmp_path / "gpufit", tmp_path / "rule"
    monkeypatch.setattr(directory, "SHARED", shared)
    monkeypatch.setattr(directory, "RULE", rule)
    own = Settings(runtime=str(tmp_path))
    assert not open_lab(own).shared, "nobody has made one"

    rule.write_text(f"d {shared} 1777 root root -\n")
    with pytest.raises(LabGone, match="sudo gpufit lab init"):
        open_lab(own)
    assert open_lab(own, waits=True) == Lab(shared, shared=True)


def test_a_file_with_the_inode_of_a_claim_that_has_ended_is_no_claim(tmp_path: Path) -> None:
    """Disks give an inode anew at once; /dev/shm, on which the other tests have their labs, does not."""
    reader = LedgerReader(tmp_path)
    held = publish(tmp_path, WHOLE, Hold(devices=("cpu:0",), bytes=1, alone=False))
    inode = os.fstat(held.fd).st_ino
    assert [claim.id for claim in reader.read().claims] == [held.id]
    held.drop()
    waits = publish(tmp_path, WHOLE)
    if os.fstat(waits.fd).st_ino != inode:
        pytest.skip("NOT TESTED: this file system gives no inode anew")
    assert reader.read().claims == ()
    waits.drop()


def test_the_end_of_a_claim_asks_for_no_list_of_all_locks(own_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, hold = LedgerReader(own_lab.path, keeps_open=True), Hold(devices=("a",), bytes=1, alone=True)
    ended, emptied = (publish(own_lab.path, request(), hold) for _ in range(2))
    assert len(reader.read().claims) == 2
    monkeypatch.setattr(locks, "_read", lambda: pytest.fail("it stops all locking"))

    ended.drop()
    emptied.path.unlink()

    for _ in range(2):
        assert [one.id for one in reader.read().claims] == [emptied.id]
    emptied.drop()
    assert reader.read().claims == ()


def test_who_only_looks_keeps_nothing_open(own_lab: Lab) -> None:
    """A panel does for weeks, and the lab's mount could not be taken away."""
    claim = publish(own_lab.path, request(), Hold(devices=("a",), bytes=1, alone=True))
    reader, before = LedgerReader(own_lab.path), set(os.listdir("/proc/self/fd"))
    assert len(reader.read().claims) == 1
    assert set(os.listdir("/proc/self/fd")) == before
    claim.drop()


def test_a_look_that_fails_forgets_no_claim(own_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = LedgerReader(own_lab.path)
    held = publish(own_lab.path, WHOLE, Hold(devices=("cpu:0",), bytes=1, alone=False))
    reader.read()
    empty(own_lab)
    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", _too_many_files)
        with pytest.raises(OSError, match="Too many open files"):
            reader.read()
    assert [claim.id for claim in reader.read().claims] == [held.id]
    held.drop()
    assert reader.read().claims == ()


def _too_many_files(*_: object) -> None:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


async def test_a_claim_that_cannot_be_taken_over_is_let_go(own_lab: Lab) -> None:
    held = publish(own_lab.path, WHOLE, Hold(devices=("cpu:0",), bytes=1, alone=False))
    reader, fd = LedgerReader(own_lab.path), os.dup(held.fd)
    reader.read()
    empty(own_lab)
    os.close(held.fd)
    gone = Lab(own_lab.path / "gone", shared=True)
    with pytest.raises(ClaimGone):
        async with adopt(gone, held.id, fd, look):
            pass
    assert reader.read().claims == ()


def test_anybodys_mutex_makes_no_lab_of_one_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: only root can make another's file")
    rule, lab = tmp_path / "rule", tmp_path / "lab"
    rule.write_text(f"d {lab} 1777 root root -\n")
    lab.mkdir()
    (lab / directory.MUTEX).touch()
    os.chown(lab / directory.MUTEX, 12345, 12345)
    monkeypatch.setattr(directory, "SHARED", lab)
    monkeypatch.setattr(directory, "RULE", rule)

    with pytest.raises(LabGone):
        open_lab(Settings())
