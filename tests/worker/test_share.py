"""A training that holds a whole device for want of an estimate lets others have what it does not take."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels import Kernel, environment

pytestmark = [pytest.mark.slow(10), pytest.mark.usefixtures("no_worker_outlives_its_test")]


@pytest.fixture(scope="module")
def env(home: Path) -> dict[str, str]:
    return environment(
        home, GPUFIT_DEVICES="cpu:1x4GiB", GPUFIT_ESTIMATE_LIMIT="0", GPUFIT_SHRINK_AFTER="1", GPUFIT_SPARE_WORKER="1"
    )


TRAINS = """%%gpufit train --name first
import pathlib, time, torch
layer = torch.nn.Linear(16, 16).cuda()
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
grow, end = pathlib.Path({grow!r}), pathlib.Path({end!r})
kept = []
while not end.exists():
    layer(torch.randn(8, 16, device="cuda")).sum().backward()
    optimizer.step()
    if grow.exists():
        kept.append(torch.ones(4 << 20, device="cuda"))
        print("kept", flush=True)
        time.sleep(0.2)  # slowly enough to be seen growing
"""


def test_it_holds_less_while_it_runs_and_more_again_when_it_grows(
    kernel: Kernel, second_kernel: Kernel, tmp_path: Path
) -> None:
    grow, end = tmp_path / "grow", tmp_path / "end"
    sent = kernel.send(TRAINS.format(grow=str(grow), end=str(end)))
    kernel.until(sent, "holds 512.0 MiB of cpu:0 from now on instead of all")

    second_kernel.check("%%gpufit train --name second --memory 3GiB\nprint('beside it')")
    status = second_kernel.check("%gpufit status")

    assert "512.0 MiB" in status.shown + status.stdout
    grow.touch()
    kernel.until(sent, "needs more, and holds 768.0 MiB of cpu:0 again")
    kernel.until(sent, "kept")  # what torch itself takes may have been too much before
    end.touch()
    ran = kernel.finish(sent)
    assert ran.ok
    assert kernel.check("print(len(kept) > 0)").stdout == "True\n"


def test_what_its_user_asked_for_stays_as_it_is(kernel: Kernel, second_kernel: Kernel, tmp_path: Path) -> None:
    grow, end = tmp_path / "grow", tmp_path / "end"
    cell = TRAINS.format(grow=str(grow), end=str(end)).replace("--name first", "--name first --exclusive")
    sent = kernel.send(cell)
    kernel.until(sent, "running")

    second = second_kernel.send("%%gpufit train --name second --memory 3GiB\nprint('after it')")
    second_kernel.until(second, "queued")
    end.touch()
    ran = kernel.finish(sent)
    assert ran.ok and "from now on instead" not in ran.shown + ran.stdout
    assert "after it" in second_kernel.finish(second).stdout
