"""Kills of any process at any moment of a job's life: what was saved is there, no claim stays, the bits are the same.

A job is started, saved, released, moved, resumed and ended, from its notebook and from a terminal, and beside each of
these some process of its user, the kernel aside, gets a SIGKILL: the worker, the image that it becomes, who writes a
checkpoint, the spare, the command itself. The moment is a number of changes to the user's files, so that most kills
fall between two of the steps by which a thing is published. Then the job is resumed, until it has come to its end.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from inotify_simple import INotify, flags

from jupyter_gpufit.jobs.paths import JobPaths
from jupyter_gpufit.jobs.record import Record, read_record
from jupyter_gpufit.jobs.state import OVER
from jupyter_gpufit.jobs.store import find_job
from jupyter_gpufit.settings import Settings
from tests.command_line import gpufit, typing, until_running
from tests.held_training import DIGEST, SET_UP
from tests.kernels import TIMEOUT, Kernel, Ran, running_kernel

KILLS = int(os.environ.get("SOAK_KILLS", "1000"))
SEED = int(os.environ.get("SOAK_SEED", "11"))
EACH = 15  # kills of one job
LONGEST = 1.5  # seconds for which the moment of a kill is waited for
MOST_CHANGES = 5.0  # a power of two: of files, until the moment has come
STEPS = 40
CELL = (
    "for epoch in range(4):\n"
    "    for x, y in loader:\n"
    "        loss = torch.nn.functional.mse_loss(net(x), y)\n"
    "        opt.zero_grad(); loss.backward(); opt.step()\n"
    "        losses.append(loss.item().hex()); print('step', len(losses))\n"
    "        if os.path.exists({slow!r}): time.sleep(0.05)\n"
    "        while os.path.exists({slow!r}) and len(losses) > 30: time.sleep(0.02)\n"
)
VERBS = ("checkpoint", "release", "move", "resume", "stop", "attach", "")
WEIGHTS = (4, 2, 3, 1, 1, 1, 2)
BUSY = 4  # times as often as the spare, which is always there and mostly waits
KILLED = ("jupyter_gpufit.worker", "jupyter_gpufit.checkpoint.writer_process", "the spare")
NO_CHECKPOINT = "no checkpoint"
STOPPED = re.compile(  # what any cell shows that was interrupted: where it stood
    r"Traceback \(most recent call last\)(?:(?!Traceback).)*Cell(?:(?!Traceback).)*KeyboardInterrupt", re.DOTALL
)


@pytest.fixture(scope="module")
def kernel(home: Path, env: dict[str, str]) -> Iterator[Kernel]:
    """One whose processes are known by their environments."""
    with running_kernel(env, home, cold=True) as kernel:
        yield kernel


@pytest.mark.slow(15)
@pytest.mark.parametrize(
    "kills", [pytest.param(3, marks=pytest.mark.slow(20)), pytest.param(KILLS, marks=pytest.mark.soak)]
)
def test_whoever_is_killed_the_job_comes_to_its_result(
    kernel: Kernel, env: dict[str, str], home: Path, kills: int
) -> None:
    kernel.check(SET_UP + CELL.format(slow=""))
    plain = kernel.check(DIGEST).stdout
    chance, told = random.Random(SEED), Counter[str]()
    number = 0
    while told["killed"] < kills:
        number += 1
        life = Life(kernel, env, home, f"killed-{number}", chance, told)
        life.begin()
        for _ in range(min(EACH, kills)):
            life.disturb()
        life.slow.unlink()
        for _ in range(2 if kills > EACH else 0):  # while it ends, too
            life.disturb()
        life.end(plain)
        sys.stdout.write(f"{number} {dict(told)}\n")  # `make soak` shows it
    assert told["came to its end"] > told["had not been saved"], told
    if kills > EACH:
        wanted = [f"killed {one}" for one in KILLED] + [f"killed during {verb or 'the loop'}" for verb in VERBS]
        assert all(told[one] >= kills // 100 for one in wanted), told


@dataclass(repr=False)
class Life:
    """One job, from its start to its end."""

    kernel: Kernel
    env: dict[str, str]
    home: Path
    name: str
    chance: random.Random
    told: Counter[str]
    at_least: int = 0  # the step from which it goes on, at the least
    over: bool = False  # it was killed before it was saved: nothing can go on
    log: list[str] = field(default_factory=list)  # what was done, for who reads how it failed

    def __repr__(self) -> str:
        return "\n".join([self.name, *self.log])

    @property
    def slow(self) -> Path:
        """While this is there, the cell does not come to its end."""
        return self.home / "slow"

    @property
    def paths(self) -> JobPaths:
        return find_job(Settings(data=str(self.home / ".local/share/gpufit")), self.name)[1]

    @property
    def record(self) -> Record:
        return read_record(self.paths)

    def begin(self) -> None:
        self.slow.touch()
        self.kernel.check(SET_UP)
        self.kernel.check(f"%%gpufit train --detach --name {self.name}\n" + CELL.format(slow=str(self.slow)))
        if self.chance.random() < 0.8:  # the others are killed while they start, too
            anyio.run(until_running, self.home, self.name)
            self.said(self.kernel.run(f"%gpufit checkpoint {self.name}"), "checkpoint")

    def disturb(self) -> None:
        """One verb, and one kill at some moment of it."""
        state = self.record.state
        if state == "done":
            return
        verb = "resume" if state in OVER else self.chance.choices(VERBS, WEIGHTS)[0]
        in_terminal = verb == "attach" or self.chance.random() < 0.2
        self.log.append(f"{state}: {verb}{' in a terminal' if in_terminal else ''}")
        with Moment(self.home) as moment:
            acting = typing(self.env, verb, self.name) if verb and in_terminal else None
            options = " --detach" if verb == "resume" else ""
            sent = self.kernel.send(f"%gpufit {verb} {self.name}{options}") if verb and not in_terminal else ""
            moment.wait(int(2 ** self.chance.uniform(0, MOST_CHANGES)))
            self.kill(verb)
        if acting is not None and verb == "attach":
            acting.kill()
            acting.communicate()
        elif acting is not None:
            self.hear(acting, verb)
        elif sent:
            self.said(self.kernel.finish(sent), verb)

    def kill(self, verb: str) -> None:
        victims = sorted(processes(self.home).items())
        if not victims:
            return
        weights = [1 if what == "the spare" else BUSY for _, what in victims]
        ((pid, what),) = self.chance.choices(victims, weights)
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self.told["killed"] += 1
        self.told[f"killed {what}"] += 1
        self.told[f"killed during {verb or 'the loop'}"] += 1
        self.log.append(f"killed {what}")

    def hear(self, acting: subprocess.Popen[str], verb: str) -> None:
        stdout, stderr = acting.communicate(timeout=TIMEOUT)
        self.said(Ran(stdout, stderr, ename="" if acting.returncode == 0 else "failed"), verb)

    def said(self, ran: Ran, verb: str) -> None:
        """Nobody meets a traceback; what a checkpoint says is on the disk is there from now on."""
        told = ran.stdout + ran.stderr + ran.shown
        self.log.append(f"{verb}: {told}\n{ran.ename} {ran.evalue}")
        assert "Traceback" not in STOPPED.sub("", told), self
        if verb == "resume" and not ran.ok and NO_CHECKPOINT in ran.evalue + told:
            self.over = True
        if verb == "resume" and ran.ok:
            steps = [int(step) for step in re.findall(rf"{self.name} goes on from step (\d+)", told)]
            assert all(step >= self.at_least for step in steps), self
        if verb in ("checkpoint", "release", "move") and ran.ok:
            # Of this job: the card of an earlier one may be drawn once more meanwhile.
            steps = [int(step) for step in re.findall(rf"{self.name} is saved at step (\d+)", told)]
            self.at_least = max(self.at_least, *steps, 0)
        if (saved := self.record.checkpoint) is not None:
            self.at_least = max(self.at_least, saved.step)

    def end(self, plain: str) -> None:
        """It comes to its end, whatever has happened; or there was nothing from which it could go on."""
        for _ in range(6):
            if not self.goes_on():
                assert self.at_least == 0, self
                self.told["had not been saved"] += 1
                self.kernel.check(f"%gpufit clean {self.name}")
                return
            ran = self.kernel.run(f"%gpufit attach {self.name}")
            self.log.append(f"attach: {ran.stdout}{ran.shown}\n{ran.ename} {ran.evalue}")
            if ran.ok and self.record.state == "done":
                break
        assert ran.ok and self.kernel.check(DIGEST).stdout == plain, self
        steps = list(dict.fromkeys(re.findall(r"step (\d+)\n", ran.stdout)))
        assert steps == [str(step) for step in range(1, STEPS + 1)], self
        assert json.loads(gpufit(self.env, "status", "--json").stdout)["claims"] == [], self
        self.told["came to its end"] += 1
        self.kernel.check(f"%gpufit clean {self.name}")

    def goes_on(self) -> bool:
        """Whether it runs or has ended well, resumed if that is wanted; else there was nothing to resume."""
        for _ in range(5):  # what was asked for before may come true only now
            if self.record.state not in OVER or self.record.state == "done":
                return True
            ran = self.kernel.run(f"%gpufit resume --detach {self.name}")
            self.said(ran, "resume")
            if ran.ok:
                return True
            if self.over:
                return False
        pytest.fail(f"{self}")


class Moment:
    """Some change to the files of a user."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def __enter__(self) -> Moment:
        self._inotify = INotify(nonblocking=True)
        self._watched: dict[int, Path] = {}
        for place in (".local/share/gpufit", "run"):
            self._watch(self._home / place)
        return self

    def __exit__(self, *_: object) -> None:
        self._inotify.close()

    def wait(self, changes: int) -> None:
        """Until so many have been seen; those to a journal, which come all the time, are not counted."""
        until = time.monotonic() + LONGEST
        while changes > 0 and (left := until - time.monotonic()) > 0:
            for event in self._inotify.read(timeout=1000 * left):
                if event.mask & flags.ISDIR and event.mask & (flags.CREATE | flags.MOVED_TO):
                    self._watch(self._watched[event.wd] / event.name)
                changes -= not event.name.startswith("journal")

    def _watch(self, directory: Path) -> None:
        wanted = flags.MODIFY | flags.CREATE | flags.MOVED_TO | flags.DELETE | flags.CLOSE_WRITE
        for place in (Path(root) for root, _, _ in os.walk(directory)):  # which passes over what has gone
            try:
                self._watched[self._inotify.add_watch(str(place), wanted)] = place
            except OSError:  # it has gone
                continue


def processes(home: Path) -> dict[int, str]:
    """Of this home's user, without the kernel, and what each is."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            mine = f"HOME={home}".encode() in (place / "environ").read_bytes().split(b"\0")
            words = (place / "cmdline").read_bytes().split(b"\0")
            parent = (place / "stat").read_bytes().rpartition(b")")[2].split()[1].decode()
            of_kernel = b"ipykernel_launcher" in (place.parent / parent / "cmdline").read_bytes()
        except OSError:  # it has ended
            continue
        if mine and b"ipykernel_launcher" not in words:
            what = next((word.decode() for word in words if word.startswith(b"jupyter_gpufit")), "something")
            found[int(place.name)] = "the spare" if b"--forks" in words and of_kernel else what
    return found
