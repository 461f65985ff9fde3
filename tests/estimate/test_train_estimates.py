"""A training is estimated before it queues, claims what it needs, and what it took is kept."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from jupyter_gpufit.jobs.handover import FORKS
from tests.kernels import TIMEOUT, Kernel, environment, running_kernel

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def env(home: Path) -> dict[str, str]:
    """Of a user whose trainings wait long for their estimates: a machine that runs tests may be busy."""
    return environment(home, GPUFIT_SPARE_WORKER="1", GPUFIT_ESTIMATE_LIMIT="300")


@pytest.fixture(scope="module")
def kernel(home: Path, env: dict[str, str]) -> Iterator[Kernel]:
    """One whose processes are known by their command lines."""
    with running_kernel(env, home, cold=True) as kernel:
        yield kernel


DEFINE = """
%load_ext jupyter_gpufit
import torch
model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 512))
optimizer = torch.optim.AdamW(model.parameters())
"""
CELL = """
model.to("cuda")
for i in range(5):
    loss = model(torch.randn(256, 512, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def states(home: Path) -> list[str]:
    """The reasons for which the newest job was queued."""
    journals = sorted(home.rglob("journal.jsonl"), key=lambda path: path.stat().st_mtime)
    entries = [json.loads(line) for line in journals[-1].read_text().splitlines()]
    return [entry["reason"] for entry in entries if entry["kind"] == "state" and entry["state"] == "queued"]


def lessons(home: Path) -> list[dict[str, object]]:
    found = list(home.rglob("learned.jsonl"))
    return [json.loads(line) for path in found for line in path.read_text().splitlines()]


@pytest.mark.slow(17)
def test_claims_the_estimate_and_learns_from_the_run(kernel: Kernel, home: Path) -> None:
    kernel.check(DEFINE)

    ran = kernel.check("%%gpufit train" + CELL)
    first = states(home)[0]
    kernel.check("%%gpufit train" + CELL)
    second = states(home)[0]

    assert first.startswith("estimate: ") and "confidence; claims" in first
    assert ran.shown.count(first) >= 1, "one line says it"
    assert second.startswith("estimate: ") and "as before" not in second, "the optimizer has a state by now"
    one, two = lessons(home)
    assert one["key"] == two["key"], "the same cell with the same shapes"
    assert one["kind"] == "slot" and one["measured"]


def test_the_same_cell_with_the_same_around_it_is_not_estimated_again(kernel: Kernel, home: Path) -> None:
    for again in (False, True):
        kernel.check(DEFINE)
        kernel.check("%%gpufit train --name other" + CELL + "\n# another cell than that of the test before\npass")
        assert ("as before" in states(home)[0]) is again


def test_what_the_user_asks_for_is_not_estimated(kernel: Kernel, home: Path) -> None:
    kernel.check("%%gpufit train --memory 1GiB\nprint('hello')")

    assert states(home)[0] == "asks for what --memory says"


@pytest.mark.parametrize(
    "cell", ["print('hello')", "", "import json\nprint(sum(values))"], ids=["one line", "empty", "with a variable"]
)
def test_a_cell_that_uses_no_torch_is_not_estimated(kernel: Kernel, home: Path, cell: str) -> None:
    kernel.check("%load_ext jupyter_gpufit\nvalues = [1, 2, 3]")

    ran = kernel.check("%%gpufit train\n" + cell)

    assert states(home)[0] == "asks for a whole device"
    assert "estimate" not in ran.shown


def test_a_cell_that_leaves_the_device_alone_claims_a_whole_one_and_says_so(kernel: Kernel, home: Path) -> None:
    kernel.check("%%gpufit train\nimport torch\nx = torch.ones(3).sum()")

    assert states(home)[0] == "this cell uses no GPU; claims a whole slot"


def test_an_error_of_the_cell_comes_from_the_run_and_not_from_the_estimate(kernel: Kernel, home: Path) -> None:
    ran = kernel.run("%%gpufit train\nimport torch\ntorch.ones(3, device='cuda') @ torch.ones(4, device='cuda')")

    assert ran.ename == "RuntimeError"
    assert "whole device" in states(home)[0]


GROWS = """
import torch
first = torch.nn.Linear(16, 16).cuda()
optimizer = torch.optim.SGD(first.parameters(), lr=0.1)
kept = []
for step in range(400):
    first(torch.randn(8, 16, device="cuda")).sum().backward()
    optimizer.step()
    if step > 2:  # later than any trial run looks
        kept.append(torch.ones(4 << 20, device="cuda"))
"""


@pytest.mark.slow(22)
def test_a_cell_that_outgrows_its_estimate_gets_more_by_itself_and_a_whole_device_next_time(
    kernel: Kernel, home: Path
) -> None:
    ran = kernel.run("%%gpufit train" + GROWS)

    assert ran.ename == "OutOfMemoryError"
    first, *more = states(home)
    assert "claims 512.0 MiB" in first
    assert more == ["needs 1.0 GiB: 512.0 MiB were too little", "needs 2.0 GiB: 1.0 GiB were too little"]
    assert "a larger slot" in ran.traceback, "now the device itself is too small"
    again = kernel.run("%%gpufit train" + GROWS)
    assert again.ename == "OutOfMemoryError"
    assert "ran out of memory" in states(home)[0] and "whole device" in states(home)[0]


def test_a_cell_that_cannot_begin_again_says_what_to_claim_where_its_estimate_was_too_low(
    kernel: Kernel, home: Path
) -> None:
    kernel.check("%load_ext jupyter_gpufit\nimport torch\ncount = torch.zeros(100_000)")  # what is small has moved out

    ran = kernel.run("%%gpufit train\ncount += 1" + GROWS)

    assert ran.ename == "OutOfMemoryError" and len(states(home)) == 1
    assert "was only estimated, and it was too low" in ran.traceback and "--memory 1.0GiB" in ran.traceback


def test_an_interrupt_ends_the_estimate_at_once(kernel: Kernel, home: Path) -> None:
    sent = kernel.send("%%gpufit train\nimport torch, time\ntorch.ones(3, device='cuda')\ntime.sleep(600)")
    kernel.until(sent, "estimating")
    assert trial_runs(home, until=1) == 1

    began = time.monotonic()
    kernel.interrupt()
    ran = kernel.finish(sent)

    assert not ran.ok and time.monotonic() - began < 60  # the estimate may take 300
    assert trial_runs(home, until=0) == 0


def trial_runs(home: Path, until: int) -> int:
    """The workers' forked copies, as soon as there are so many, or after a while."""
    end = time.monotonic() + TIMEOUT
    while (found := _forked_workers(home)) != until and time.monotonic() < end:
        time.sleep(0.01)
    return found


def _forked_workers(home: Path) -> int:
    """A copy has its worker's command line and environment, and the worker for a parent, which a spare may have."""
    workers, spares = {}, set()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if "jupyter_gpufit.worker" in process.cmdline() and process.environ().get("HOME") == str(home):
                workers[process.pid] = process.ppid()
                if FORKS in process.cmdline():
                    spares.add(process.pid)
    spares -= {pid for pid, parent in workers.items() if parent in workers}
    return sum(parent in workers and parent not in spares for parent in workers.values())
