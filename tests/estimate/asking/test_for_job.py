"""The estimate of a job, before it is claimed for."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from jupyter_gpufit.devices.device import Device
from jupyter_gpufit.estimate.asking import for_job
from jupyter_gpufit.estimate.asking.worth import may_train_with
from jupyter_gpufit.estimate.reckoning.report import NO_GPU, Estimate
from jupyter_gpufit.graph import ship
from jupyter_gpufit.graph.memory import GraphMemory
from jupyter_gpufit.graph.wire import seal
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.testing import fake_device
from jupyter_gpufit.units import GiB, MiB


def test_a_stop_in_the_moment_in_which_the_estimate_ends_is_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(for_job, "estimate_job", lambda *_: None)

    async def ends_and_is_cancelled(estimate: Callable[[], for_job.Found]) -> for_job.Found:
        estimate()
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(for_job.estimate_in(ends_and_is_cancelled, cast(Any, None), [], Settings()))


@pytest.mark.parametrize(
    "source, devices, claimed",
    [
        ("print(1)", [fake_device()], "none"),
        ("import polars; polars.scan_csv('x').collect(engine='gpu')", [fake_device()], "a whole device"),
        ("get_ipython().system('python train.py')", [fake_device()], "a whole device"),  # it may use the GPU
        ("print(1)", [fake_device("cpu:0", label="cpu:0", kind="slot")], "a whole device"),  # all memory is the slot's
    ],
)
def test_a_cell_in_which_nothing_could_use_a_gpu_is_known_by_its_text(
    source: str, devices: list[Device], claimed: str, tmp_path: Path
) -> None:
    memory = GraphMemory(())
    cell = for_job.Cell(source, seal({"names": []}, b""), memory)

    needed = for_job.needed_of(for_job.estimate_job(cell, devices, Settings(data=str(tmp_path))), devices)

    assert claimed == {None: "a whole device", 0: "none"}[needed.memory]


@pytest.mark.parametrize("source, answer", [("f(1)", False), ("f(one)", True), ("torch.ones(1)", True), ("1", False)])
def test_what_a_cell_is_given_is_looked_at_where_it_was_made(source: str, answer: bool) -> None:
    given = {name: value for name, value in {"f": print, "one": torch.ones(1)}.items() if name in source}
    shipment = ship(given, given, None, may_train_with)

    assert for_job.Cell(source, shipment.graph, shipment.memory).may_train is answer


@pytest.mark.slow
@pytest.mark.parametrize(
    "source, doubt",
    [
        ("import torch\nprint(torch.ones(2).sum())", ""),
        ("import torch, subprocess\nsubprocess.run(['true'])", "it starts programs"),
        ("import torch\nprint(torch.cuda.get_device_name())", "it names a GPU"),
        ("import torch, sys\nsys.modules['fast.cu' + 'da'] = sys", "fast.cuda has CUDA of its own"),
    ],
)
def test_none_is_claimed_where_a_trial_run_used_none_and_sees_all_that_could(
    source: str, doubt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = ("torch", "jupyter_gpufit")
    for name in [name for name in sys.modules if "cuda" in name and not name.startswith(ours)]:
        monkeypatch.delitem(sys.modules, name)  # of other tests in this process
    memory, device = GraphMemory(()), fake_device()
    cell = for_job.Cell(source, ship([], {}).graph, memory)
    found = for_job.estimate_job(cell, [device], Settings(data=str(tmp_path)))

    needed = for_job.needed_of(found, [device])

    assert isinstance(found, for_job.Estimated) and found.estimate.uses_no_gpu
    assert (needed.memory == 0) is (not doubt), "else as much as it takes to find out"
    assert not doubt or doubt in found.estimate.reasons
    assert for_job.needed_of(found, [device], names_device=True).memory != 0, "its user asked for that device"


def test_a_cell_that_uses_no_gpu_leaves_nearly_all_of_it_to_others() -> None:
    nothing = Estimate(card="T4", card_total=15 * GiB, how="nothing", context=GiB // 2, low=GiB // 2, reasons=(NO_GPU,))
    device = fake_device(total=15 * GiB)

    on_gpu = for_job.needed_of(for_job.Estimated(nothing, "gpu", ""), [device])
    on_slot = for_job.needed_of(for_job.Estimated(nothing, "slot", ""), [device])

    assert on_gpu.memory == GiB // 2 + 256 * MiB and on_gpu.reason.startswith("this cell uses no GPU; it claims 768.0")
    assert on_slot.memory is None and "this cell uses no GPU" in on_slot.reason
