"""A notebook's cell on several CPU slots: real kernels, workers, ranks and signals."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.command_line import gpufit, jobs
from tests.kernels import TIMEOUT, Kernel, environment

pytestmark = [pytest.mark.slow(10), pytest.mark.usefixtures("no_worker_outlives_its_test")]

SET_UP = """
import os, time, torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
x = torch.randn(64, 8); y = x.sum(1, keepdim=True); losses = []
"""
CELL = """
print('pid', os.getpid())
for step in range({steps}):
    at = step * 10 % 64
    loss = (net(x[at:at + 10]) - y[at:at + 10]).pow(2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
    losses.append(loss.item()); print('step', step)
    while step in {holds} and not os.path.exists(f'{hold}-{{step}}'): time.sleep(0.01)
"""


@pytest.fixture(scope="module")
def env(home: Path) -> dict[str, str]:
    return environment(
        home, GPUFIT_SPARE_WORKER="1", GPUFIT_ESTIMATE_LIMIT="0", GPUFIT_DEVICES="cpu:4x2GiB", TMPDIR=str(home)
    )


@pytest.fixture
def hold(home: Path, request: pytest.FixtureRequest) -> Path:
    return home / f"go-on-{request.node.name}"


@pytest.fixture(scope="module")
def plain(kernel: Kernel) -> list[float]:
    """What one device comes to."""
    kernel.check(SET_UP + CELL.format(steps=30, holds=(), hold=""))
    found: list[float] = json.loads(kernel.check("print(losses)").stdout)
    return found


@pytest.fixture(autouse=True)
def _nothing_stays(home: Path) -> Iterator[None]:
    yield
    until(lambda: not scratch(home))


def nothing_is_held(env: dict[str, str]) -> None:
    assert json.loads(gpufit(env, "status", "--json").stdout)["claims"] == []


def scratch(home: Path) -> list[Path]:
    return [*home.glob("gpufit-ranks-*")]


def until(done: Callable[[], bool], limit: float = TIMEOUT) -> None:
    end = time.monotonic() + limit
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)


@dataclass
class Standing:
    """A training that stands at a step."""

    sent: str
    worker: int  # pid
    others: list[int]  # of its ranks beside the first


def standing(kernel: Kernel, sent: str, step: int) -> Standing:
    ran = kernel.until(sent, f"step {step}\n")
    worker = int(ran.stdout.split("pid ")[-1].split()[0])
    children = psutil.Process(worker).children()
    others = [child.pid for child in children if child.name() != "sh" and os.getpgid(child.pid) == child.pid]
    return Standing(sent, worker, others)


def started(kernel: Kernel, name: str, hold: Path, *, gpus: str = "2") -> Standing:
    kernel.check(SET_UP)
    cell = CELL.format(steps=30, holds=(9,), hold=hold)
    return standing(kernel, kernel.send(f"%%gpufit train --gpus {gpus} --name {name}\n{cell}"), 9)


def near(found: list[float], wanted: list[float]) -> None:
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one == pytest.approx(other, rel=1e-5)


def losses(kernel: Kernel) -> list[float]:
    found: list[float] = json.loads(kernel.check("print(losses)").stdout)
    return found


def test_two_devices_come_to_what_one_does_and_say_it_once(
    kernel: Kernel, env: dict[str, str], plain: list[float]
) -> None:
    kernel.check(SET_UP + "was = net\n")
    ran = kernel.check(
        "%%gpufit train --gpus 2 --name two\nimport json\nos.makedirs('out', exist_ok=True)\n"
        + CELL.format(steps=30, holds=(), hold="")
        + "    open('out/log', 'a').write(f'{step}\\n')\n"
        "torch.save(net.state_dict(), 'out/best'); os.replace('out/best', 'out/last')\n"
        "assert os.path.exists('out/last') and not os.path.exists('out/best')\n"
        "net.load_state_dict(torch.load('out/last'))\n"
    )
    assert ran.stdout.split("\n", 1)[1] == "".join(f"step {step}\n" for step in range(30))
    assert "data parallel over cpu:0 and cpu:1" in ran.shown
    near(losses(kernel), plain)
    kernel.check("assert was is net and open('out/log').read().split() == [str(step) for step in range(30)]")


@pytest.mark.slow(18)
def test_saved_on_two_gone_on_with_on_one_and_moved_to_four(
    kernel: Kernel, env: dict[str, str], plain: list[float], hold: Path
) -> None:
    kernel.check(SET_UP)
    cell = CELL.format(steps=30, holds=(9, 19), hold=hold)
    sent = kernel.send(f"%%gpufit train --gpus 2 --name chain\n{cell}")
    kernel.until(sent, "step 9\n")
    said = gpufit(env, "release", "chain")
    assert said.returncode == 0, said.stderr
    assert kernel.finish(sent).released
    Path(f"{hold}-9").touch()
    sent = kernel.send("%gpufit resume --gpus 1 chain")
    ran = kernel.until(sent, "step 19\n")
    assert "data parallel" not in ran.shown
    moved = gpufit(env, "move", "chain", "--to", "cpu:0,cpu:1,cpu:2,cpu:3")
    assert moved.returncode == 0, moved.stderr
    Path(f"{hold}-19").touch()
    ran = kernel.finish(sent)
    assert ran.ok and "data parallel over cpu:0, cpu:1, cpu:2 and cpu:3" in ran.shown
    near(losses(kernel), plain)


def test_an_interrupted_one_goes_on_alone(kernel: Kernel, env: dict[str, str], plain: list[float], hold: Path) -> None:
    kernel.check(SET_UP)
    lines = CELL.format(steps=10, holds=(9,), hold=hold).strip().splitlines()
    cell = "\n".join(
        ["try:", *(f"    {line}" for line in lines), "except KeyboardInterrupt: print('stopped')"]
        + CELL.format(steps=30, holds=(), hold="").replace("range(30)", "range(10, 30)").strip().splitlines()
    )
    early = standing(kernel, kernel.send(f"%%gpufit train --gpus 2 --name early\n{cell}"), 9)
    kernel.interrupt()
    ran = kernel.finish(early.sent)
    assert ran.ok and "stopped\n" in ran.stdout and "step 10\n" in ran.stdout, ran.traceback
    near(losses(kernel), plain)
    assert len(early.others) == 1 and not psutil.pid_exists(early.others[0])


def test_a_killed_rank_fails_the_cell_with_its_name(kernel: Kernel, env: dict[str, str], hold: Path) -> None:
    training = started(kernel, "killed", hold)
    [other] = training.others
    os.kill(other, signal.SIGKILL)
    Path(f"{hold}-9").touch()
    ran = kernel.finish(training.sent)
    assert ran.ename == "RankLost" and "This training's process on cpu:1 was ended by SIGKILL" in ran.evalue
    assert "RankGone" not in ran.traceback
    assert jobs(env)["killed"]["state"] == "failed"
    nothing_is_held(env)
    assert len(losses(kernel)) == 10  # what was trained until then comes back


def test_a_rank_that_hangs_is_waited_for_so_long_and_no_longer(kernel: Kernel, env: dict[str, str], hold: Path) -> None:
    kernel.check("import os; os.environ['GPUFIT_RANK_PATIENCE'] = '3'")
    try:
        training = started(kernel, "hangs", hold)
        [other] = training.others
        os.kill(other, signal.SIGSTOP)
        Path(f"{hold}-9").touch()
        ran = kernel.finish(training.sent)
    finally:
        kernel.check("del os.environ['GPUFIT_RANK_PATIENCE']")
    assert "did not come to where the others waited for 3 s" in ran.evalue
    assert not psutil.pid_exists(other)


@pytest.mark.slow(18)
def test_a_lost_rank_costs_what_was_done_since_the_checkpoint(
    kernel: Kernel, env: dict[str, str], plain: list[float], hold: Path
) -> None:
    training = started(kernel, "goes-on", hold, gpus="2-3")
    others = training.others
    assert len(others) == 2  # as many as are free
    assert gpufit(env, "checkpoint", "goes-on").returncode == 0
    os.kill(others[1], signal.SIGKILL)
    Path(f"{hold}-9").touch()
    ran = kernel.finish(training.sent)
    assert ran.ok and "This training's process on cpu:2 was ended by SIGKILL" in ran.shown, ran.traceback
    assert "goes-on goes on from its checkpoint at step 10 by itself" in ran.shown
    near(losses(kernel), plain)


def test_a_killed_worker_takes_its_ranks_along(kernel: Kernel, env: dict[str, str], hold: Path) -> None:
    training = started(kernel, "first", hold)
    [other] = training.others
    os.kill(training.worker, signal.SIGKILL)
    until(lambda: not psutil.pid_exists(other), limit=5.0)
    assert "SIGKILL" in kernel.finish(training.sent).evalue
    nothing_is_held(env)


def test_a_rank_s_own_error_is_shown_with_the_cell_s_line(kernel: Kernel) -> None:
    kernel.check(SET_UP)
    ran = kernel.run(
        "%%gpufit train --gpus 2 --name fails\n"
        "1 / ('gpufit-ranks-' not in os.environ.get('TMPDIR', ''))\nnet(x).sum().backward()\n"
    )
    assert ran.ename == "RankLost" and "on cpu:1 failed" in ran.evalue
    assert "ZeroDivisionError" in ran.evalue and "line 2, in <module>" in ran.evalue


def test_ranks_that_part_ways_are_told_apart(kernel: Kernel) -> None:
    kernel.check(SET_UP)
    ran = kernel.run(
        "%%gpufit train --gpus 2 --name parts\n"
        "for _ in range(2 if 'gpufit-ranks-' in os.environ.get('TMPDIR', '') else 4):\n"
        "    opt.zero_grad(); (net(x) - y).pow(2).mean().backward(); opt.step()\n"
    )
    assert ran.ename == "RanksDisagree" and "cpu:1 to the end of its cell" in ran.evalue


def test_a_cell_with_ranks_of_its_own_is_refused(kernel: Kernel) -> None:
    ran = kernel.run("%%gpufit train --gpus 2 --name own\nimport torch.distributed as d\nd.init_process_group('gloo')")
    assert ran.ename == "HasItsOwnRanks" and "Leave out --gpus" in ran.evalue


def test_what_can_never_be_is_refused_at_once(kernel: Kernel) -> None:
    for options, why in (
        ("--gpus 0", "'0' is not a number of devices"),
        ("--gpus two", "'two' is not a number of devices"),
        ("--gpus 3-2", "write 2-3"),
        ("--gpus 5", "asks for 5 devices, and only cpu:0, cpu:1, cpu:2 and cpu:3 can serve it"),
        ("--gpus 2 --gpu cpu:1", "asks for 2 devices, and only cpu:1 can serve it"),
        ("--gpus 2 --fit recompute", "does not go with --gpus"),
    ):
        ran = kernel.run(f"%%gpufit train {options}\n1")
        assert ran.ename == "BadOption" and why in ran.evalue, (options, ran)
