"""What is said of a cell whose tracing goes wrong, and that nothing stays of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch.utils import backend_registration

from tests.command_line import until_gone
from tests.estimate.cells import IMPORTS
from tests.estimate.traced import traced

pytestmark = pytest.mark.slow


def test_the_users_own_error_with_its_line() -> None:
    trace = traced(IMPORTS + 'model = nn.Linear(16, 16).cuda()\nmodel(torch.randn(8, 15, device="cuda"))\n')

    assert trace.status == "failed"
    assert trace.error.endswith("RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x15 and 16x16)")
    assert trace.where == 'line 7 of the cell: model(torch.randn(8, 15, device="cuda"))'
    assert "gpufit/" not in trace.error and "_subclasses" not in trace.error


def test_a_check_of_guessed_values_is_passed_over_wherever_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "checks_masks.py").write_text(
        "def check(mask):\n    ones = (mask == 1).sum().cpu().numpy()\n"
        "    assert (\n        ones == mask.numel()\n    ), 'no mask'\n    return mask\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    trace = traced(
        """
        import checks_masks, torch
        model = torch.nn.Linear(3, 1).cuda()
        opt = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(5):
            loss = model(checks_masks.check(torch.rand(4, 3).cuda().round())).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            assert loss.item() < -1e9
        """
    )

    assert trace.status == "completed" and trace.trained, trace.error
    left = {note for note in trace.notes if "left out" in note}
    assert len(left) == 2 and any("line 3 of checks_masks.py left out" in note for note in left)
    assert any("the check in line 10 left out" in note for note in left)


def test_a_check_of_what_is_known_is_the_users_own_error() -> None:
    trace = traced("import torch\nx = torch.ones(4, 3).cuda()\nassert x.shape == (3, 4)")

    assert trace.status == "failed" and "AssertionError" in trace.error


def test_an_error_in_backward() -> None:
    trace = traced(
        IMPORTS
        + """
y = nn.Linear(16, 16).cuda()(torch.randn(8, 16, device="cuda")).sigmoid()
y.add_(1)
y.sum().backward()
"""
    )

    assert trace.status == "failed" and trace.where == "line 9 of the cell: y.sum().backward()"
    assert "modified by an inplace operation: [torch.cuda.FloatTensor [8, 16]]" in trace.error


def test_tensors_on_two_devices() -> None:
    trace = traced(IMPORTS + "nn.Linear(16, 16).cuda()(torch.randn(8, 16))\n")

    assert trace.status == "failed"
    assert "Expected all tensors to be on the same device" in trace.error and "cuda:0" in trace.error


def test_a_syntax_error() -> None:
    trace = traced(f"x = 1\ny = = {list(range(99))}\n")

    assert trace.status == "failed" and trace.where.startswith("line 2 of the cell: y = = [0, 1, 2, ")
    assert trace.where.endswith(" …") and len(trace.where) < 120  # it stands in the middle of a sentence


def test_what_cannot_be_traced_is_not_called_the_users_error() -> None:
    trace = traced(
        """
        import torch
        torch.ops.aten.unique_dim_consecutive(torch.randn(10, device="cuda"), 0)
        """
    )

    assert trace.status == "died" and trace.where.startswith("line 3")
    assert trace.error.startswith("What aten.unique_dim_consecutive.default makes depends on values")


def test_a_custom_operator_without_shapes_is_named() -> None:
    trace = traced(
        """
        import torch
        library = torch.library.Library("mykernels", "DEF")
        library.define("scale(Tensor x) -> Tensor")
        library.impl("scale", lambda x: x * 2, "CUDA")
        torch.ops.mykernels.scale(torch.randn(4, 8, device="cuda"))
        """
    )

    assert trace.status == "died" and trace.where.startswith("line 6")
    assert trace.error == "mykernels.scale cannot be traced without a GPU."


def test_compiled_code_that_takes_a_tensors_address_ends_the_copy_only() -> None:
    trace = traced('import torch, ctypes\nctypes.memset(torch.ones(3, device="cuda").data_ptr(), 0, 4)\n')

    assert trace.status == "died" and "SIGSEGV" in trace.error
    assert trace.where.startswith("line 2")


def test_an_endless_loop_is_ended_and_says_where_it_was() -> None:
    cell = "def wait():\n    while True:\n        pass\nwait()\n"
    for limit in (2.0, 8.0, 60.0):  # the trace itself has to start first, which takes longer on a machine that is busy
        trace = traced(cell, limit=limit)
        if trace.where:
            break

    assert trace.status == "timeout"
    assert trace.where in ("line 2 of the cell: while True:", "line 3 of the cell: pass")


def test_a_crash_is_told() -> None:
    trace = traced("import os\nos.abort()\n")

    assert trace.status == "died" and "SIGABRT" in trace.error
    assert trace.where == "line 2 of the cell: os.abort()"


def test_processes_of_the_cell_end_with_it() -> None:
    trace = traced(
        """
        import os, time
        child = os.fork()
        if child == 0:
            time.sleep(600)
        raise RuntimeError(f"pid {child}")
        """
    )

    pid = int(trace.error.rsplit(" ", 1)[1])
    until_gone(pid)


def test_a_torch_without_what_we_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jupyter_gpufit.estimate.tracing.child", None)

    trace = traced("x = 1")

    assert trace.status == "died" and trace.error.startswith("This version of torch cannot be traced: import of")


def test_a_torch_without_what_we_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch._C, "_set_only_lift_cpu_tensors")

    trace = traced("x = 1")

    assert trace.status == "died" and "cannot be traced: module 'torch._C' has no attribute" in trace.error


def test_a_torch_before_those_that_can_be_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(backend_registration, "_setup_privateuseone_for_python_backend")

    trace = traced("x = 1")

    assert trace.error == f"torch {torch.__version__} cannot be traced: that takes torch 2.10 or later"


def test_who_computes_with_the_notebooks_number_of_threads_does_not_wait_for_threads_that_no_fork_has() -> None:
    large = torch.ones(1 << 20)

    def opened() -> dict[str, object]:
        torch.set_num_threads(2)  # as the settings of the kernel are put
        return {"large": large}

    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        large.add_(1)  # from here on OpenMP has its threads in this process
        trace = traced("import torch\ntorch.set_num_threads(3)\nx = (large * 2).cuda()\n", opened, limit=30.0)
    finally:
        torch.set_num_threads(threads)

    assert trace.status == "completed", trace


def test_a_tensor_of_the_device_that_is_plotted_as_it_is_fails_in_the_words_of_a_gpu() -> None:
    trace = traced("import torch, numpy\nnumpy.asarray(torch.ones(4, 3).cuda())")

    assert trace.status == "failed"
    assert trace.error.endswith("Use Tensor.cpu() to copy the tensor to host memory first.")
    assert "TypeError: can't convert cuda:0 device type tensor to numpy" in trace.error
