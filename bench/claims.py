"""What the lab costs: a claim, a wake-up in a crowd, the death of a holder, a status; beside simpler locks in one run.

The peers: a bare flock is the floor; a queue like nq's (a file born locked, and waiting for those named before it) has
one slot, no sizes, no users and no fairness; genv has no queue. genv is measured where GPUFIT_BENCH_GENV names a
Python that has it (AGPL; it is run, and nothing of it is used), with an nvidia-smi that answers at once.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
from common import package_root, show_table, write_results

package_root()

from jupyter_gpufit.devices.device import Device  # noqa: E402
from jupyter_gpufit.lab import Lab, Request, claim, view_lab  # noqa: E402 - needs the path above
from jupyter_gpufit.lab.published import Published, publish  # noqa: E402
from jupyter_gpufit.lab.record import Hold  # noqa: E402
from jupyter_gpufit.lab.view import LabReader  # noqa: E402
from jupyter_gpufit.units import GiB  # noqa: E402
from tests.lab.conftest import make_shared  # noqa: E402
from tests.lab.players import Part, Player, Stage, holder, start  # noqa: E402
from tests.lab.values import request, slots  # noqa: E402

Figures = dict[str, float]


@contextmanager
def fresh_lab() -> Iterator[Lab]:
    path = Path(tempfile.mkdtemp(prefix="gpufit-bench-", dir="/dev/shm"))
    make_shared(path)
    try:
        yield Lab(path, shared=True)
    finally:
        shutil.rmtree(path)


@contextmanager
def cast() -> Iterator[list[Player]]:
    players: list[Player] = []
    try:
        yield players
    finally:
        for player in players:
            player.kill()


def figures(taken: Sequence[float]) -> Figures:
    """Seconds."""
    ordered = sorted(taken)
    return {"median": statistics.median(ordered), "p99": ordered[int(len(ordered) * 0.99)], "min": ordered[0]}


def timed(function: Callable[[], object], repeat: int = 500) -> Figures:
    taken = []
    for _ in range(repeat):
        begin = time.perf_counter()
        function()
        taken.append(time.perf_counter() - begin)
    return figures(taken)


def uncontended() -> Figures:
    """From no ticket to a claim, with devices that are known already: what comes on top of NVML."""
    taken = []

    async def look() -> Sequence[Device]:
        return devices

    async def run() -> None:
        for _ in range(500):
            begin = time.perf_counter()
            async with claim(lab, request(GiB), look):
                taken.append(time.perf_counter() - begin)

    devices = slots(4, 4)
    with fresh_lab() as lab:
        anyio.run(run)
    return figures(taken)


def bare_flock() -> Figures:
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:

        def cycle() -> None:
            fcntl.flock(file, fcntl.LOCK_EX)
            fcntl.flock(file, fcntl.LOCK_UN)

        return timed(cycle)


def like_nq() -> Figures:
    """A file born locked under a dot name, renamed to one with the time; then wait for a lock on all before it."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:

        def cycle() -> None:
            name = f"{directory}/,{time.time_ns()}.{os.getpid()}"
            fd = os.open(f"{directory}/.new", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
            fcntl.flock(fd, fcntl.LOCK_EX)
            os.rename(f"{directory}/.new", name)
            for other in sorted(os.listdir(directory)):
                if f"{directory}/{other}" < name:
                    with open(f"{directory}/{other}") as before:
                        fcntl.flock(before, fcntl.LOCK_SH)
            os.unlink(name)
            os.close(fd)

        return timed(cycle)


GENV = """
import statistics, time
import genv.sdk
taken = []
with genv.sdk.activate():
    for _ in range(200):
        begin = time.perf_counter()
        genv.sdk.attach(gpus=1)
        taken.append(time.perf_counter() - begin)
        genv.sdk.detach()
taken.sort()
print(statistics.median(taken), taken[198], taken[0])
"""
SMI = '#!/bin/sh\ncase "$*" in *memory.total*) printf "81920\\n81920\\n";; esac\n'


def genv_attach() -> Figures | None:
    python = os.environ.get("GPUFIT_BENCH_GENV")
    if not python:
        return None
    with tempfile.TemporaryDirectory() as directory:
        smi = Path(directory) / "nvidia-smi"
        smi.write_text(SMI)
        smi.chmod(0o755)
        env = os.environ | {"GENV_TMPDIR": f"{directory}/genv", "PATH": f"{directory}:{os.environ['PATH']}"}
        out = subprocess.run([python, "-c", GENV], env=env, capture_output=True, text=True, check=True).stdout
    median, p99, least = map(float, out.split())
    return {"median": median, "p99": p99, "min": least}


def counting_waiter(lab: Lab, asked: Request, devices: Sequence[Device]) -> Part:
    """A waiter that tells, whenever it is asked, what it has used of the processor."""

    async def look() -> Sequence[Device]:
        return devices

    def part(stage: Stage) -> None:
        async def wait() -> None:
            async with claim(lab, asked, look):
                pass

        async def run() -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(wait)
                while True:
                    await stage.order()
                    stage.say(f"used {time.process_time()}")

        anyio.run(run)

    return part


def crowd(waiters: int = 50, wakes: int = 20, idle: float = 10.0) -> dict[str, float]:
    """What 50 waiters use of the processor: in peace, and at every change in the lab."""
    devices = slots(4, 4)
    with fresh_lab() as lab, cast() as players:
        start(players, holder(lab, request(None, count=2), devices)).hear("holds")
        people = [start(players, counting_waiter(lab, request(4 * GiB), devices)) for _ in range(waiters)]
        _until_queued(lab, waiters)
        time.sleep(1)  # until the last of them has settled
        claims: list[Published] = []
        quiet = _used_during(people, lambda: time.sleep(idle))
        coming = _used_during(people, lambda: _claims_come(lab, claims, wakes))
        going = _used_during(people, lambda: _claims_go(claims))
    return {
        "waiters": waiters,
        "idle": max(0.0, quiet) / waiters / idle,  # seconds of processor per second, each
        "per_claim_that_comes": coming / waiters / wakes,  # seconds of processor, each
        "per_claim_that_goes": going / waiters / wakes,
    }


def _until_queued(lab: Lab, count: int) -> None:
    while len(LabReader(lab).snapshot().tickets) < count:
        time.sleep(0.05)


def _used_during(people: Sequence[Player], happening: Callable[[], object]) -> float:
    def used() -> float:
        for player in people:
            player.go_on()
        return sum(float(player.hear("used").split()[1]) for player in people)

    before = used()
    asking = used() - before
    happening()
    return used() - before - 2 * asking


def _claims_come(lab: Lab, claims: list[Published], times: int) -> None:
    hold = Hold(devices=("cpu:9",), bytes=1, alone=False)  # of no use to those who wait, so that they go on waiting
    for _ in range(times):
        claims.append(publish(lab.path, request(), hold))
        time.sleep(0.25)  # until even the last in the queue has looked


def _claims_go(claims: list[Published]) -> None:
    for claimed in claims:
        claimed.drop()
        time.sleep(0.25)


def timing_waiter(lab: Lab, devices: Sequence[Device]) -> Part:
    async def look() -> Sequence[Device]:
        return devices

    def part(stage: Stage) -> None:
        async def run() -> None:
            async with claim(lab, request(4 * GiB), look, lambda why: stage.say("waits")):
                stage.say(f"holds {time.monotonic()}")
                await stage.order()

        anyio.run(run)

    return part


def after_a_kill(behind: int, rounds: int = 60) -> Figures:
    """From SIGKILL of a small holder to the claim of the next, with so many others behind it."""
    taken, devices = [], slots(4)
    with fresh_lab() as lab, cast() as players:
        start(players, holder(lab, request(None), devices)).hear("holds")
        queue = [start(players, timing_waiter(lab, devices)) for _ in range(rounds + behind)]
        _until_queued(lab, rounds + behind)
        order = {ticket.pid: index for index, ticket in enumerate(LabReader(lab).snapshot().tickets)}
        queue.sort(key=lambda player: order[player.pid])
        holding = players[0]
        for following in queue[:rounds]:
            time.sleep(0.3 if behind else 0.05)  # until the crowd sleeps again
            killed = time.monotonic()
            holding.kill()
            taken.append(float(following.hear("holds").split()[1]) - killed)
            holding = following
    return figures(taken)


def status() -> dict[str, Figures]:
    """A view of 16 devices, 50 tickets and 20 claims: by a command that begins, and by a server that goes on."""
    devices = slots(*[64] * 16)
    with fresh_lab() as lab:
        kept = [publish(lab.path, request(None if i % 3 == 0 else 40 * GiB, count=1 + i % 2)) for i in range(50)]
        for i in range(20):
            hold = Hold(devices=(f"cpu:{i % 16}",), bytes=40 * GiB if i < 16 else GiB, alone=False)
            kept.append(publish(lab.path, request(), hold))
        reader = LabReader(lab)
        found = {
            "status, first reading": timed(lambda: view_lab(lab, devices), 100),
            "status, later readings": timed(lambda: reader.view(devices), 100),
        }
        for file in kept:
            file.drop()
    return found


def main() -> None:
    anyio.run(anyio.sleep, 0)  # loads what is loaded late
    genv = genv_attach()
    rows: dict[str, Figures] = {
        "bare flock, taken and given back": bare_flock(),
        "queue like nq's, in and out": like_nq(),
        **({"genv attach (SDK)": genv} if genv else {}),
        "ticket to claim, nobody else there": uncontended(),
        "SIGKILL of a holder to the next claim": after_a_kill(behind=0, rounds=40),
        "the same with 50 others behind": after_a_kill(behind=50, rounds=20),
        **status(),
    }
    waiting = crowd()
    show_table(
        ["", "median ms", "p99 ms", "min ms"],
        [[name, *(f"{row[key] * 1e3:.3f}" for key in ("median", "p99", "min"))] for name, row in rows.items()],
    )
    print(
        f"\n{waiting['waiters']:.0f} waiters: {waiting['per_claim_that_comes'] * 1e3:.2f} ms of processor each when a"
        f" claim comes, {waiting['per_claim_that_goes'] * 1e3:.2f} ms when one goes, and {waiting['idle'] * 100:.3f} %"
        " of it each while nothing happens"
    )
    results: dict[str, Any] = {"seconds": rows, "crowd": waiting}
    if genv is None:
        results["remark"] = "genv was not measured: GPUFIT_BENCH_GENV names no Python that has it"
    write_results("claims", results)


if __name__ == "__main__":
    main()
