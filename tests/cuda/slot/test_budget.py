from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
import torch

from jupyter_gpufit.cuda.slot import Budget
from jupyter_gpufit.cuda.slot.budget import may_interrupt
from jupyter_gpufit.units import GiB, MiB

BEGIN = """
import gc, signal, sys, threading
import torch
from jupyter_gpufit.cuda.slot import as_slot
from jupyter_gpufit.units import MiB

def grow(kept):
    while True:
        kept.append(torch.ones(MiB, device="cuda"))

def told(kept):
    try:
        grow(kept)
    except torch.OutOfMemoryError as error:
        return str(error)
"""


def run(program: str) -> str:
    """Run a program in a process of its own, whose memory is no other test's."""
    done = subprocess.run([sys.executable, "-c", BEGIN + program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_growing_too_far_ends_the_loop_with_the_figures() -> None:
    said = run("with as_slot('cpu:1', 256 * MiB): print(told([]))")

    figures = re.fullmatch(
        r"The CPU slot cpu:1 has 256.0 MiB; the cell had grown to (.*) (MiB|GiB) in all."
        r" Try a smaller batch, or a larger slot \(GPUFIT_DEVICES\).\n",
        said,
    )
    assert figures and (figures[2] == "GiB" or float(figures[1]) > 256)


@pytest.mark.slow
def test_an_excess_is_told_once_and_the_next_one_again() -> None:
    said = run("""
with as_slot("cpu:0", 256 * MiB) as slot:
    kept = []
    assert told(kept)
    assert slot.used() > 250 * MiB and not slot.is_exceeded()  # the tensor that the error cut short is free again
    try:
        kept.append(torch.ones(16 * MiB))  # more than a tenth
        while slot.is_exceeded():
            pass
    except torch.OutOfMemoryError:
        print("told again, since it grew further")
    kept.clear()
    gc.collect()
    torch.cuda.empty_cache()
    assert not slot.is_exceeded() and slot.used() < 256 * MiB < slot.peak()
    assert told(kept)
    print("told again, since it was free in between")
""")
    assert said.splitlines() == ["told again, since it grew further", "told again, since it was free in between"]


@pytest.mark.slow
def test_a_thread_that_grows_is_told_in_the_main_thread() -> None:
    said = run("""
kept, stop = [], threading.Event()

def grow_until_stopped():
    while not stop.is_set():
        kept.append(torch.ones(MiB, device="cuda"))

with as_slot("cpu:0", 256 * MiB):
    thread = threading.Thread(target=grow_until_stopped)
    thread.start()
    try:
        while True:
            pass
    except torch.OutOfMemoryError as error:
        print(type(error).__name__)
        stop.set()
    thread.join()
""")
    assert said == "OutOfMemoryError\n"


@pytest.mark.slow
def test_what_cuda_reports_is_what_the_process_grew_by() -> None:
    run("""
with as_slot("cpu:0", 1024 * MiB):
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    x = torch.ones(64 * MiB // 4, device="cuda")
    held = torch.cuda.memory_allocated()
    assert 63 * MiB < held - before < 80 * MiB, held - before
    assert torch.cuda.mem_get_info()[0] <= 1024 * MiB - held
    del x
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() < before + 16 * MiB
    assert torch.cuda.max_memory_allocated() >= held
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() < held
""")


@pytest.mark.slow
def test_freed_and_mapped_memory_is_not_the_cells() -> None:
    run("""
import mmap, tempfile
with as_slot("cpu:0", 256 * MiB) as slot:
    small = [torch.ones(256, device="cuda") for _ in range(100_000)]
    last = torch.ones(256)  # keeps the heap from shrinking by itself
    held = slot.used()
    assert held > 100 * MiB
    small.clear()
    torch.cuda.empty_cache()
    assert slot.used() < held - 50 * MiB, slot.used()
    with tempfile.TemporaryFile() as file:
        file.truncate(512 * MiB)
        before = slot.used()
        data = mmap.mmap(file.fileno(), 0)
        sum(data[::4096])
        assert slot.used() < before + 16 * MiB
""")


@pytest.mark.slow
def test_the_signal_is_given_back() -> None:
    run("""
from jupyter_gpufit.cuda.slot.budget import SIGNAL
mine = lambda number, frame: None
signal.signal(SIGNAL, mine)
with as_slot("cpu:0", 64 * MiB):
    assert signal.getsignal(SIGNAL) is not mine
assert signal.getsignal(SIGNAL) is mine
assert [thread.name for thread in threading.enumerate()] == ["MainThread"]
""")


@pytest.mark.parametrize(
    ("callers", "struck"),
    [
        (["__main__"], True),
        (["__main__", "torch.nn.modules.module", "json.encoder"], True),
        (["jupyter_gpufit.worker.shell", "IPython.core", "__main__", "jupyter_gpufit.cuda.slot.mode"], True),
        (["__main__", "jupyter_gpufit.jobs.journal", "json.encoder"], False),
        (["jupyter_gpufit.worker.shell", "IPython.core"], False),
        (["__main__", "jupyter_gpufit.snapshot.take", "cloudpickle.cloudpickle", "torch.storage"], False),
        (["__main__", "jupyter_gpufit.graph.stream", "users_module", "torch.storage"], False),
        (["__main__", "jupyter_gpufit.fit.rungs.again", "transformers.models", "torch.nn"], True),
    ],
)
def test_only_the_users_code_is_struck(callers: list[str], struck: bool) -> None:
    inner: Any = may_interrupt
    source = "def here(): return inner(sys._getframe())"
    for module in reversed(callers):
        names = {"__name__": module, "sys": sys, "inner": inner}
        exec(source, names)
        inner, source = names["here"], "def here(): return inner()"

    assert inner() is struck


def test_more_than_the_whole_is_refused_before_it_is_touched() -> None:
    budget = Budget("cpu:0", 4 * GiB)

    budget.check(4 * GiB)
    with pytest.raises(torch.OutOfMemoryError, match=r"slot cpu:0 has 4.0 GiB; .* asked for 5.0 GiB more"):
        budget.check(5 * GiB)
    assert 0 <= budget.used() <= budget.peak() < 64 * MiB


def test_what_malloc_keeps_of_what_is_free_is_no_peak_above_the_limit() -> None:
    budget = Budget("cpu:0", 64 * MiB)
    kept = [torch.ones(16_000) for _ in range(3000)]

    del kept[:-1]  # the last one lies above all others, and malloc gives back only what is above all

    assert budget.peak() <= 64 * MiB


def test_whoever_claimed_a_part_is_told_to_claim_more() -> None:
    whole, part = Budget("cpu:0", 4 * GiB, 4 * GiB), Budget("cpu:0", GiB, 4 * GiB)

    assert "slot cpu:0 has 4.0 GiB; " in str(whole.exceeded()) and "(GPUFIT_DEVICES)" in str(whole.exceeded())
    assert "has 4.0 GiB, of which this job has claimed 1.0 GiB; " in str(part.exceeded())
    assert str(part.exceeded()).endswith("a larger claim (--memory).")
