"""Kills of any process at any moment of a job's life: what was saved is there, no claim stays, the bits are the same.

A job is started, saved, released, moved and resumed, and beside each of these some process of its user, the kernel
aside, gets a SIGKILL: the worker, the image that it becomes, who writes a checkpoint, who brings the variables, the
command itself. Then it is resumed, until it has come to its end.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import anyio
import pytest

from tests.command_line import gpufit, jobs, typing, until_running
from tests.held_training import DIGEST, SET_UP
from tests.kernels import TIMEOUT, Kernel, running_kernel

KILLS = int(os.environ.get("SOAK_KILLS", "1000"))
EACH = 5  # kills of one job
LATEST = 1.2  # seconds after a verb
CELL = (
    "for epoch in range(4):\n"
    "    for x, y in loader:\n"
    "        loss = torch.nn.functional.mse_loss(net(x), y)\n"
    "        opt.zero_grad(); loss.backward(); opt.step()\n"
    "        losses.append(loss.item().hex()); print('step', len(losses)); time.sleep({pause})\n"
)
VERBS = (("checkpoint",), ("release",), ("move",), ("resume",), ())


@pytest.fixture(scope="module")
def kernel(home: Path, env: dict[str, str]) -> Iterator[Kernel]:
    """One whose processes are known by their environments."""
    with running_kernel(env, home, cold=True) as kernel:
        yield kernel


@pytest.mark.parametrize(
    "kills", [pytest.param(3, marks=pytest.mark.slow(20)), pytest.param(KILLS, marks=pytest.mark.soak)]
)
def test_whoever_is_killed_the_job_comes_to_its_result(
    kernel: Kernel, env: dict[str, str], home: Path, kills: int
) -> None:
    kernel.check(SET_UP + CELL.format(pause=0))
    plain = kernel.check(DIGEST).stdout
    chance, told = random.Random(11), Counter[str]()
    for number in range(-(-kills // EACH)):
        name = f"killed-{number}"
        kernel.check(SET_UP)
        kernel.check(f"%%gpufit train --detach --name {name}\n" + CELL.format(pause=0.1))
        at_least = 0
        if chance.random() < 0.8:  # the others are killed while they start, too
            anyio.run(until_running, home, name)
            at_least = _saved(gpufit(env, "checkpoint", name))
        for _ in range(min(kills, EACH)):
            at_least = _disturb(env, home, name, at_least, chance, told)
        if not _goes_on(env, name, at_least):
            assert at_least == 0, "it had been saved"
            told["had not been saved"] += 1
            continue
        ran = kernel.run(f"%gpufit attach {name}")
        assert ran.ok and kernel.check(DIGEST).stdout == plain, (name, ran)
        assert jobs(env)[name]["state"] == "done" and ran.stdout.endswith("step 40\n")
        assert json.loads(gpufit(env, "status", "--json").stdout)["claims"] == []
        told["came to its end"] += 1
        kernel.check(f"%gpufit clean {name}")
    assert told["came to its end"] > told["had not been saved"], told


def _disturb(
    env: dict[str, str], home: Path, name: str, at_least: int, chance: random.Random, told: Counter[str]
) -> int:
    """One verb and one kill; the step from which the job goes on at the least."""
    runs = jobs(env)[name]["state"] == "running"
    verb = chance.choice(VERBS) if runs else ("resume",)
    acting = typing(env, *verb, name) if verb else None
    time.sleep(chance.uniform(0, LATEST))
    if victims := sorted(_processes(home)):
        os.kill(chance.choice(victims), signal.SIGKILL)
        told[f"killed during {verb[0] if verb else 'nothing'}"] += 1
    if acting is None:
        return at_least
    said = CompletedProcess(verb, 0, *acting.communicate(timeout=TIMEOUT))
    said.returncode = acting.returncode
    return max(at_least, _saved(said)) if verb == ("checkpoint",) else at_least


def _saved(said: CompletedProcess[str]) -> int:
    """The step of which a command says that it is on the disk."""
    assert "Traceback" not in said.stderr, said
    return int(re.findall(r"step (\d+)", said.stdout)[0]) if said.returncode == 0 else 0


def _goes_on(env: dict[str, str], name: str, at_least: int) -> bool:
    """Whether it runs or has ended well, resumed if that is wanted; else there was nothing to resume."""
    for _ in range(3):  # what was asked for before may come true only now
        job = jobs(env)[name]
        if job["state"] in ("done", "running", "queued"):
            return True
        said = gpufit(env, "resume", name)
        assert "Traceback" not in said.stderr, said
        if said.returncode == 0:
            assert all(int(step) >= at_least for step in re.findall(r"from step (\d+)", said.stdout)), (said, at_least)
            return True
        if "no checkpoint" in said.stderr:
            return False
    pytest.fail(f"{said}")


def _processes(home: Path) -> set[int]:
    """Of this home's user, without the kernel and what keeps a worker ready for it."""
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        try:
            mine = f"HOME={home}".encode() in (place / "environ").read_bytes().split(b"\0")
            words = (place / "cmdline").read_bytes()
        except OSError:  # it has ended
            continue
        if mine and b"ipykernel" not in words and b"spare" not in words:
            found.add(int(place.name))
    return found
