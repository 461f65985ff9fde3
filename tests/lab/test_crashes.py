"""Whatever a process dies of, and wherever: the next one goes on, and nothing is granted twice."""

from __future__ import annotations

import fcntl
import mmap
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from jupyter_gpufit.devices.device import Device
from jupyter_gpufit.lab import Lab, claim, queue, stalled, view_lab
from jupyter_gpufit.lab.ledger import LedgerReader
from jupyter_gpufit.lab.policy import Policy
from jupyter_gpufit.lab.published import sweep
from jupyter_gpufit.lab.view import LabReader
from jupyter_gpufit.units import GiB
from tests.lab.players import Part, Player, Stage, holder, start
from tests.lab.values import request, slots, spaces

pytestmark = pytest.mark.slow

ONE = slots(4)
POINTS = ["q:created", "q:written", "q:locked", "q:linked", "mutex", "c:created", "c:written", "c:locked", "c:linked"]
GIVING_BACK = ["q:closed", "c:closed"]


@pytest.mark.parametrize("point", POINTS + GIVING_BACK)
def test_killed_at_any_step_it_stops_nobody(lab: Lab, players: list[Player], point: str) -> None:
    victim = start(players, holder(lab, request(4 * GiB, name="victim"), ONE), pause=point)
    if point == "c:closed":
        victim.hear("holds")
        victim.go_on()
    victim.wait_until_stopped()
    victim.kill()

    heir = start(players, holder(lab, request(4 * GiB, name="heir"), ONE))
    heir.hear("holds cpu:0")
    assert [claim.request.name for claim in LedgerReader(lab.path).read().claims] == ["heir"]
    heir.go_on()
    heir.wait()
    assert not [name for name in os.listdir(lab.path) if name[0] in "qc"]  # the heir swept, too


def test_stopped_inside_the_mutex_it_delays_the_others_until_it_dies(lab: Lab, players: list[Player]) -> None:
    victim = start(players, holder(lab, request(4 * GiB), ONE), pause="mutex")
    victim.wait_until_stopped()
    heir = start(players, holder(lab, request(4 * GiB), ONE))
    heir.hear(f"waits: root's process {victim.pid} has held" if os.geteuid() == 0 else "waits: ")
    victim.kill()
    heir.hear("holds cpu:0")


def test_the_next_in_the_queue_follows_a_killed_holder(lab: Lab, players: list[Player]) -> None:
    first = start(players, holder(lab, request(4 * GiB), ONE))
    first.hear("holds")
    second = start(players, holder(lab, request(4 * GiB), ONE))
    second.hear("waits")
    first.kill()
    second.hear("holds cpu:0")


def test_a_killed_waiter_leaves_the_queue(lab: Lab, players: list[Player]) -> None:
    first = start(players, holder(lab, request(4 * GiB), ONE))
    first.hear("holds")
    second, third = (start(players, holder(lab, request(4 * GiB), ONE)) for _ in range(2))
    second.hear("waits")
    third.hear("waits")
    second.kill()
    first.go_on()
    third.hear("holds cpu:0")


def test_a_stopped_holder_keeps_its_claim(lab: Lab, players: list[Player]) -> None:
    stopped = start(players, holder(lab, request(4 * GiB, name="stopped"), ONE))
    stopped.hear("holds")
    stopped.signal(signal.SIGSTOP)
    stopped.wait_until_stopped()
    other = start(players, holder(lab, request(4 * GiB), ONE))
    assert "your stopped has held cpu:0" in other.hear("waits")

    # Nothing looks at a clock, so that "for minutes" needs no minutes: it holds as long as its lock is held.
    view = view_lab(lab, ONE)
    assert [claim.request.name for claim in view.claims] == ["stopped"]
    reader = LabReader(lab)
    assert reader.holding(reader.snapshot(), spaces(ONE), Policy(), 0.0).stopped == {view.claims[0].id}
    stopped.signal(signal.SIGCONT)
    stopped.go_on()
    other.hear("holds cpu:0")


def forks_a_child(lab: Lab, *, dies: bool) -> Part:
    """Hold a claim, fork (as a DataLoader does) a child that stays, and end."""

    def part(stage: Stage) -> None:
        async def look() -> Sequence[Device]:
            return ONE

        async def run() -> None:
            async with claim(lab, request(4 * GiB, name="parent"), look) as granted:
                child = os.fork()
                if child == 0:
                    signal.pause()
                stage.say(f"holds {child}")
                await stage.order()
                if dies:
                    os.kill(os.getpid(), signal.SIGKILL)
            stage.say("gave back")
            assert granted.fds

        anyio.run(run)

    return part


@pytest.mark.parametrize("dies", [True, False])
def test_a_child_that_outlives_its_parent_keeps_the_claim(lab: Lab, players: list[Player], dies: bool) -> None:
    parent = start(players, forks_a_child(lab, dies=dies))
    child = int(parent.hear("holds").split()[1])
    parent.go_on()
    os.waitpid(parent.pid, 0)
    parent.ended = True
    try:
        other = start(players, holder(lab, request(4 * GiB), ONE))
        assert "your parent has held cpu:0" in other.hear("waits")
        sweep(lab.path)  # takes nothing away that is still held
        assert len(LedgerReader(lab.path).read().claims) == 1
    finally:
        os.kill(child, signal.SIGKILL)
    other.hear("holds cpu:0")


def test_a_claim_survives_exec(lab: Lab, players: list[Player]) -> None:
    """A worker that leaves a GPU replaces its own image, and keeps what it holds."""
    program = f"""if True:
        import anyio, sys
        from pathlib import PosixPath
        from jupyter_gpufit.lab import Lab, adopt
        from tests.lab.values import slots

        async def look():
            return slots(4)

        async def main():
            async with adopt(Lab({lab.path!r}, False), sys.argv[1], int(sys.argv[2]), look) as granted:
                print("adopted", granted.devices[0].label, granted.bytes, flush=True)
                sys.stdin.readline()
            print("gave back", flush=True)

        anyio.run(main)
    """

    def part(stage: Stage) -> None:
        async def look() -> Sequence[Device]:
            return ONE

        async def run() -> None:
            async with claim(lab, request(4 * GiB), look) as granted:
                [fd] = granted.fds
                os.set_inheritable(fd, True)
                os.dup2(stage.out, 1)
                os.dup2(stage.out, 2)
                os.dup2(stage.orders, 0)
                os.execv(sys.executable, [sys.executable, "-c", program, granted.claim.id, str(fd)])

        anyio.run(run)

    worker = start(players, part)
    worker.hear(f"adopted cpu:0 {4 * GiB}")
    other = start(players, holder(lab, request(4 * GiB), ONE))
    other.hear("waits")
    worker.go_on()
    other.hear("holds cpu:0")


@pytest.mark.slow(10)
@pytest.mark.parametrize("kills", [50, pytest.param(300, marks=pytest.mark.soak)])
def test_kills_at_any_moment(kills: int, lab: Lab, players: list[Player], tmp_path: Path) -> None:
    """Six at a time take turns on two devices and die somewhere on the way; what they saw granted never overlaps."""
    chance = random.Random(3)
    log = tmp_path / "log"
    log.touch()
    alive: list[Player] = []
    for _ in range(kills):
        while len(alive) < 6:
            alive.append(start(players, takes_turns(lab, log)))
        victim = alive.pop(chance.randrange(len(alive)))
        time.sleep(chance.uniform(0, 0.02))  # the moment of the kill is the point here
        victim.kill()
        players.remove(victim)
    for player in alive:
        player.kill()

    heir = start(players, holder(lab, request(4 * GiB), ONE))
    heir.hear("holds cpu:0")
    assert "twice" not in log.read_text()
    assert log.read_text().count("held") > kills / 10


def takes_turns(lab: Lab, log: Path) -> Part:
    """Claim again and again; complain when another process that is alive holds the same device."""

    def part(stage: Stage) -> None:
        devices = slots(4, 4)

        async def look() -> Sequence[Device]:
            return devices

        async def run() -> None:
            while True:
                async with claim(lab, request(3 * GiB, name=str(os.getpid())), look) as granted:
                    check_alone(log.parent, granted.devices[0].label, log)
                    await anyio.sleep(0.002)

        anyio.run(run)

    return part


def check_alone(where: Path, device: str, log: Path) -> None:
    """An independent witness: a plain file per device, locked by whoever believes to hold it."""
    low = os.open(where / device, os.O_RDWR | os.O_CREAT)
    fd = fcntl.fcntl(
        low, fcntl.F_DUPFD, 200
    )  # as a driver's: above the claim's, so that a dying process closes it first
    os.close(low)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        verdict = "held"
    except BlockingIOError:
        verdict = "twice"
    with log.open("a") as file:
        file.write(f"{verdict} {device}\n")
    if verdict == "held":
        time.sleep(0.001)  # long enough for another to meet us
    os.close(fd)


@pytest.mark.parametrize("times", [8, pytest.param(40, marks=pytest.mark.soak)])
def test_fifty_claim_four_devices_again_and_again(times: int, lab: Lab, players: list[Player]) -> None:
    witness = Witness(lab.path / "witness")
    crowd = [start(players, takes(times, lab, random.Random(seed), witness)) for seed in range(50)]
    all_come_to_their_end(crowd, lab)


def test_a_crowd_of_five_users_loses_no_wake_up(shared_lab: Lab, players: list[Player]) -> None:
    witness = Witness(shared_lab.path / "witness")
    crowd = [
        start(players, takes(10, shared_lab, random.Random(seed), witness), uid=61001 + seed % 5) for seed in range(20)
    ]
    all_come_to_their_end(crowd, shared_lab)


def test_a_crowd_grants_nothing_twice_while_somebody_keeps_the_mutex(
    shared_lab: Lab, players: list[Player], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Off and on, so that some claim with it and some without, at the same time."""
    monkeypatch.setattr(queue, "MUTEX_PATIENCE", 0.001)
    monkeypatch.setattr(queue, "IMPATIENCE", 0.001)

    def keeps(stage: Stage) -> None:
        stage.say("keeps")
        while True:
            with (shared_lab.path / "mutex").open() as file:
                fcntl.flock(file, fcntl.LOCK_SH)
                time.sleep(0.02)
            time.sleep(0.005)

    start(players, keeps, uid=61009).hear("keeps")
    witness = Witness(shared_lab.path / "witness")
    crowd = [
        start(players, takes(10, shared_lab, random.Random(seed), witness), uid=61001 + seed % 5) for seed in range(12)
    ]
    all_come_to_their_end(crowd, shared_lab)


def all_come_to_their_end(crowd: list[Player], lab: Lab) -> None:
    for player in crowd:
        player.hear("all taken")
        player.wait()
    assert LedgerReader(lab.path).read().claims == ()


def takes(times: int, lab: Lab, chance: random.Random, witness: Witness) -> Part:
    def part(stage: Stage) -> None:
        queue.SLOW = stalled.PASSED_AFTER = 1e6  # a wake-up that got lost never comes
        devices = slots(4, 4, 4, 4)

        async def look() -> Sequence[Device]:
            return devices

        async def run() -> None:
            for _ in range(times):
                alone, needed = chance.random() < 0.1, chance.randint(1, 4) * GiB
                async with claim(lab, request(None if alone else needed), look) as granted:
                    index = granted.devices[0].index
                    witness.add(index, granted.bytes)
                    await anyio.lowlevel.checkpoint()
                    witness.add(index, -granted.bytes)

        anyio.run(run)
        stage.say("all taken")

    return part


class Witness:
    """Counts what is held of each device in memory that all players share, and knows nothing of the lab."""

    def __init__(self, lock: Path) -> None:
        self._lock, self._memory = lock, memoryview(mmap.mmap(-1, 4096)).cast("q")
        lock.touch()
        lock.chmod(0o644)

    def add(self, device: int, bytes: int) -> None:
        with self._lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self._memory[device] += bytes
            assert 0 <= self._memory[device] <= 4 * GiB, f"cpu:{device} was granted twice"


def test_another_pid_namespace_sees_the_same(lab: Lab, players: list[Player]) -> None:
    """A claimant in a container that shares the directory: its pids mean nothing outside, and ours nothing inside."""
    unshare = ["unshare", "--user", "--map-current-user", "--pid", "--fork", "--mount-proc"]
    if os.geteuid() == 0:
        unshare = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*unshare, "true"], capture_output=True).returncode:
        pytest.skip("NOT TESTED: pid namespaces, because unshare is not allowed here.")
    program = f"""if True:
        from pathlib import PosixPath
        from jupyter_gpufit.lab.ledger import LedgerReader
        from jupyter_gpufit.lab.published import publish
        from jupyter_gpufit.lab.record import Hold
        from tests.lab.values import request
        import sys
        print(len(LedgerReader({lab.path!r}).read().claims), flush=True)
        publish({lab.path!r}, request(), Hold(devices=("cpu:1",), bytes=1, alone=False))
        print(len(LedgerReader({lab.path!r}).read().claims), flush=True)
        sys.stdin.readline()
    """
    outside = start(players, holder(lab, request(4 * GiB), ONE))
    outside.hear("holds")
    with subprocess.Popen(
        [*unshare, sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as inside:
        assert inside.stdin and inside.stdout
        assert inside.stdout.readline() == "1\n"  # ours, seen from inside
        assert inside.stdout.readline() == "2\n"  # and its own
        assert len(LedgerReader(lab.path).read().claims) == 2  # both, seen from here
        inside.stdin.write("\n")
    assert len(LedgerReader(lab.path).read().claims) == 1
