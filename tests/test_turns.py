"""A running job gives its device back when its turn is over, and loses nothing. Real kernels, workers and users."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpufit.hub import deeds
from jupyter_gpufit.lab import Lab
from jupyter_gpufit.lab.ledger import LedgerReader
from jupyter_gpufit.lab.record import Request
from jupyter_gpufit.lab.standing import read_standings
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.units import GiB
from tests.command_line import gpufit, jobs
from tests.held_training import DIGEST, started
from tests.kernels import TIMEOUT, Kernel, environment
from tests.lab.conftest import make_shared
from tests.lab.players import Player, holder, start
from tests.lab.values import BOB, slots

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("no_worker_outlives_its_test"),
    pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: policy and other users. Run as root, in a container."),
]
QUICK = 'notice = "1s"\nentry_penalty = 1\nkept_out = ["cpu:1"]\n'


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    path = Path(tempfile.mkdtemp(prefix="gpufit-test-", dir="/dev/shm"))
    make_shared(path)
    yield Lab(path, shared=True)
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def env(home: Path, lab: Lab) -> dict[str, str]:
    policy = str(home / "policy.toml")
    return environment(home, GPUFIT_ESTIMATE_LIMIT="0", GPUFIT_LAB=str(lab.path), GPUFIT_POLICY=policy)


@pytest.fixture
def players() -> Iterator[list[Player]]:
    began: list[Player] = []
    yield began
    for player in began:
        player.kill()


def follow_policy(home: Path, text: str) -> None:
    (home / "policy.toml").write_text(text)


@pytest.mark.slow(10)
def test_a_turn_goes_to_who_waits_and_comes_back(
    kernel: Kernel, plain: str, hold: Path, home: Path, lab: Lab, players: list[Player], env: dict[str, str]
) -> None:
    follow_policy(home, f'{QUICK}[default]\nquantum = "1s"\n')
    sent = started(kernel, "bert", hold)
    bob = start(players, holder(lab, Request(job_id="b", name="gnn", needed=GiB), slots(2)), uid=BOB)
    shown = kernel.until(sent, "is saved and queues again, to go on").shown
    assert "uid 61002's gnn waits" in shown
    bob.hear("holds cpu:0")
    shown = kernel.until(sent, "its turn ended at step 14, since uid 61002's gnn waits").shown
    assert jobs(env)["bert"]["state"] in ("starting", "estimating", "queued")
    follow_policy(home, QUICK)
    bob.go_on()
    bob.wait()
    hold.touch()
    ran = kernel.finish(sent)
    assert ran.ok and "step 30\n" in ran.stdout
    assert kernel.check(DIGEST).stdout == plain


def test_who_lies_idle_is_shown_to_all_asked_and_released(
    kernel: Kernel, plain: str, hold: Path, home: Path, env: dict[str, str]
) -> None:
    follow_policy(home, f'{QUICK}[default]\nidle = "1s"\n')
    sent = started(kernel, "lazy", hold)
    follow_policy(home, f'{QUICK}[default]\nidle = "1s"\nlongest_idle = "2s"\n')
    kernel.until(sent, "Let it compute, or release it before")
    ran = kernel.finish(sent)
    assert "released at step 14, since it has computed nothing for" in ran.shown
    follow_policy(home, QUICK)
    hold.touch()
    assert kernel.finish(kernel.send("%gpufit resume lazy")).ok
    assert kernel.check(DIGEST).stdout == plain


def test_roots_order_is_obeyed_and_nothing_is_lost(
    kernel: Kernel, plain: str, hold: Path, home: Path, lab: Lab, env: dict[str, str]
) -> None:
    follow_policy(home, QUICK)
    sent = started(kernel, "ordered", hold)
    (claim,) = LedgerReader(lab.path).read().claims
    until = time.monotonic() + TIMEOUT
    while not read_standings(lab.path, [claim]):  # its worker has said a first time whether it can leave
        assert time.monotonic() < until
        time.sleep(0.02)
    said = deeds.release(Settings(lab=str(lab.path)), claim.id)
    assert "will be saved and leave its device" in said
    assert "the lab's administrator wants its device" in kernel.finish(sent).shown
    hold.touch()
    assert kernel.finish(kernel.send("%gpufit resume ordered")).ok
    assert kernel.check(DIGEST).stdout == plain


SOCKET = (
    "%%gpufit train --name {name}\nimport os, socket, time\npair = socket.socketpair()\nprint('in the loop')\n"
    "while not os.path.exists({hold!r}): time.sleep(0.02)\nprint('at the end')\n"
)


def test_what_cannot_be_saved_holds_on_or_is_stopped_as_the_policy_says(
    kernel: Kernel, hold: Path, home: Path, env: dict[str, str]
) -> None:
    follow_policy(home, QUICK)
    sent = kernel.send(SOCKET.format(name="stays", hold=str(hold)))
    kernel.until(sent, "in the loop")
    follow_policy(home, 'notice = "1s"\ndrained = ["cpu:0"]\n')
    kernel.until(sent, "goes on where it is: it cannot be saved, and the lab's policy lets it keep its device")
    hold.touch()
    assert kernel.finish(sent).stdout.endswith("at the end\n")

    hold.unlink()
    follow_policy(home, QUICK)
    sent = kernel.send(SOCKET.format(name="stops", hold=str(hold)))
    kernel.until(sent, "in the loop")
    follow_policy(home, 'notice = "1s"\ndrained = ["cpu:0"]\n[default]\nholds_on = false\n')
    kernel.until(sent, "the lab's policy lets no such job keep its device")
    assert kernel.finish(sent).ename == "KeyboardInterrupt"
    assert gpufit(env, "jobs", "--json").returncode == 0 and jobs(env)["stops"]["state"] == "stopped"
