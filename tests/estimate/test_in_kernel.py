"""%%gpufit estimate on a cell of a real kernel."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.kernels import TIMEOUT, Kernel

pytestmark = pytest.mark.slow

DEFINE = """
import torch
def step(model, x):
    return model(x).square().mean()
model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 256))
optimizer = torch.optim.AdamW(model.parameters())
before = sum(p.sum().item() for p in model.parameters()), torch.get_rng_state().sum().item()
batch = 512
"""
CELL = """
model.to("cuda")
for i in range(10**9):
    loss = step(model, torch.randn(batch, 256, device="cuda"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("not reached")
"""


def test_estimates_a_cell_and_changes_nothing(kernel: Kernel) -> None:
    kernel.check("%load_ext jupyter_gpufit\n" + DEFINE)

    told = json.loads(kernel.check('%%gpufit estimate --on "NVIDIA L4" --json' + CELL).shown)

    assert told["how"] == "trace"
    assert told["steps"] == 2
    assert told["by_kind"]["parameters"] == 4 * (256 * 1024 * 2 + 1024 + 256)
    assert told["low"] <= told["need"] <= told["high"]
    assert told["flops_per_step"] == 3 * 2 * 512 * 256 * 1024 * 2 - 2 * 512 * 256 * 1024
    after = "sum(p.sum().item() for p in model.parameters()), torch.get_rng_state().sum().item()"
    kernel.check(f"assert before == ({after})\nassert not torch.cuda.is_initialized()")


def test_one_whose_model_processes_share_is_estimated_too(kernel: Kernel) -> None:
    """Where no file may be made in shared memory, as in a trial."""
    kernel.check("%load_ext jupyter_gpufit\n" + DEFINE + "model.share_memory()\n")

    told = json.loads(kernel.check('%%gpufit estimate --on "NVIDIA L4" --json' + CELL).shown)

    assert (told["how"], told["steps"]) == ("trace", 2)


def test_what_a_notebook_has_from_its_start_is_there_in_an_earlier_cells_function(kernel: Kernel) -> None:
    kernel.check("%load_ext jupyter_gpufit\n" + DEFINE)
    kernel.check(
        "def shown_step(model, x):\n"
        "    handle = display('at first', display_id=True)\n"
        "    handle.update(f'with {get_ipython().__class__.__name__}')\n"
        "    return step(model, x)\n"
    )

    asked = CELL.replace("step(model, t", "shown_step(model, t")
    told = json.loads(kernel.check(f'%%gpufit estimate --on "NVIDIA L4" --json{asked}').shown)

    assert asked != CELL and (told["how"], told["steps"]) == ("trace", 2)


def test_shows_a_line_a_table_and_a_figure(kernel: Kernel) -> None:
    kernel.check("%load_ext jupyter_gpufit\n" + DEFINE)

    ran = kernel.check('%%gpufit estimate --on "NVIDIA L4"' + CELL)

    assert ran.shown.startswith("peak ") and "on NVIDIA L4 (22.5 GiB); fits on such a card" in ran.shown
    assert "optimizer state" in ran.shown and "Confidence" in ran.shown
    assert any("<svg" in display.get("image/svg+xml", "") for display in ran.displays)


def test_estimates_for_the_slot_that_is_here(kernel: Kernel) -> None:
    kernel.check("%load_ext jupyter_gpufit\n" + DEFINE)

    shown = kernel.check("%%gpufit estimate" + CELL).shown

    assert "CPU slot" in shown and "fits on cpu:0 and cpu:1 now" in shown


def test_sweeps_a_variable_of_the_notebook(kernel: Kernel) -> None:
    kernel.check("%load_ext jupyter_gpufit\n" + DEFINE)

    lines = kernel.check("%%gpufit estimate --on T4 --sweep batch=16,60000" + CELL).shown.splitlines()

    assert [line.partition(":")[0] for line in lines] == ["batch = 16", "batch = 60,000"]
    assert kernel.check("assert batch == 512")


def test_of_a_sweep_the_value_with_which_the_cell_fails_is_named_and_the_others_are_told(kernel: Kernel) -> None:
    kernel.check("%load_ext jupyter_gpufit\n" + DEFINE)

    ran = kernel.run("%%gpufit estimate --on T4 --sweep batch=16,32,64\nassert batch != 32" + CELL)

    lines = [line.partition(":")[0] for line in ran.shown.splitlines()]
    assert [line for line in lines if line.startswith("batch")] == ["batch = 16", "batch = 64"]
    assert ran.ename == "CellFailedInTrial" and "failed while it was estimated with batch=32, so" in ran.traceback


def test_sweeps_a_name_that_only_an_earlier_cells_loader_read(kernel: Kernel) -> None:
    kernel.check("%load_ext jupyter_gpufit\nimport numpy as np" + DEFINE)
    kernel.check("loader = torch.utils.data.DataLoader(torch.zeros(100_000, 256), batch_size=batch)")
    cell = CELL.replace("for i in range(10**9):", "for x in loader:").replace(
        'torch.randn(batch, 256, device="cuda")', 'x.to("cuda") + float(np.float32(0))'
    )

    lines = kernel.check("%%gpufit estimate --on 3060 --sweep batch=16,60000" + cell).shown.splitlines()
    asked_in_vain = kernel.run("%%gpufit estimate --on 12GiB --max-batch bach" + cell)

    assert [line.partition(":")[0] for line in lines] == ["batch = 16", "batch = 60,000"]
    assert lines[0] != lines[1].replace("60,000", "16") and "RTX 3060" in lines[0]
    assert asked_in_vain.ename == "BadOption" and "reads 'bach'" in asked_in_vain.traceback


def test_the_cells_own_error_is_shown_with_its_line(kernel: Kernel) -> None:
    kernel.check("import torch")

    ran = kernel.run(
        "%%gpufit estimate --on T4\nx = torch.ones(3, device='cuda')\ny = x @ torch.ones(4, device='cuda')"
    )

    assert ran.ename == "CellFailedInTrial"
    assert "line 3" in ran.traceback


def estimating(kernel: Kernel) -> set[int]:
    """The processes of the kernel's that estimate."""
    provisioner: Any = kernel.manager.provisioner
    found = set()
    for child in psutil.Process(provisioner.pid).children():
        with suppress(psutil.NoSuchProcess):  # or a zombie, of an estimate that has just ended
            if any("jupyter_gpufit.estimate" in word for word in child.cmdline()):
                found.add(child.pid)
    return found


def test_the_stop_button_ends_an_estimate(kernel: Kernel) -> None:
    # Its own child, as everywhere but in the tests.
    kernel.check("from jupyter_gpufit.system import processes")
    kernel.check("processes.start_asking = processes.start_asking.__self__.cold_asking")
    before = estimating(kernel)
    sent = kernel.send("%%gpufit estimate --on T4\nprint('begun')\nwhile True: pass")
    until = time.monotonic() + TIMEOUT
    while estimating(kernel) <= before:
        assert time.monotonic() < until
        time.sleep(0.02)
    kernel.interrupt()
    ran = kernel.finish(sent)

    assert ran.ename == "KeyboardInterrupt"
    kernel.check("1 + 1")


def test_a_module_that_reads_the_command_line_as_it_is_imported(kernel: Kernel, home: Path) -> None:
    (home / "reads_line.py").write_text("import sys\nassert sys.argv[1] == 'app:fast'\nclass Kept: rate = 3\n")
    kernel.check(f"%load_ext jupyter_gpufit\nimport sys\nsys.path.insert(0, {str(home)!r})\n{DEFINE}")
    kernel.check("argv, sys.argv = sys.argv, ['train.py', 'app:fast']\nimport reads_line\nkept = reads_line.Kept()")

    told = json.loads(kernel.check("%%gpufit estimate --json\nassert kept.rate == 3" + CELL).shown)

    assert told["how"] == "trace", told["reasons"]
    kernel.check("sys.argv = argv")
