"""Tracing a cell: what is seen, what is left as it was, and what is said when it goes wrong."""

from __future__ import annotations

import hashlib
import mmap
import os
import random
import signal
import socket
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from jupyter_gpufit.estimate.ask import Ask
from jupyter_gpufit.estimate.cards import Context
from jupyter_gpufit.estimate.look import look
from jupyter_gpufit.estimate.record import Trace
from jupyter_gpufit.estimate.trace import ask_child
from tests.estimate.cells import CNN, IMPORTS, LOADER
from tests.estimate.traced import A100, peak_by_kind, traced

pytestmark = pytest.mark.slow

TRAIN = """
optimizer = torch.optim.Adam(model.parameters())
for step in range(100):
    loss = model(torch.randn(8, 64, device="cuda")).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def hashed(*things: object) -> str:
    digest = hashlib.sha256()
    for thing in things:
        digest.update(thing.detach().numpy().tobytes() if isinstance(thing, torch.Tensor) else repr(thing).encode())
    return digest.hexdigest()


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in sorted(folder.rglob("*"))}


def ended_well(trace: Trace) -> bool:
    return (trace.status, trace.error, trace.steps) == ("completed", "", 2)


# What is seen


def test_names_each_block_by_kind_and_module() -> None:
    trace = traced(
        IMPORTS + 'model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 4)).to("cuda")\n' + TRAIN
    )

    assert ended_well(trace)
    seen = {(block.kind, block.module, block.size, block.phase) for block in trace.blocks}
    assert ("parameter", "", 4 * 64 * 128, "forward") in seen
    assert ("input", "", 4 * 8 * 64, "forward") in seen
    assert ("activation", "model.1", 4 * 8 * 128, "forward") in seen
    assert ("gradient", "model.0", 4 * 64 * 128, "backward") in seen
    assert ("temporary", "model.1", 4 * 8 * 128, "backward") in seen
    assert ("optimizer state", "", 4 * 64 * 128, "optimizer") in seen


def test_every_block_is_born_once_and_dies_at_most_once() -> None:
    trace = traced(IMPORTS + 'model = nn.Linear(64, 64).to("cuda")\n' + TRAIN)

    alive: set[int] = set()
    born: set[int] = set()
    for change in trace.changes:
        assert (change.block in alive) != change.alive
        (alive.add if change.alive else alive.remove)(change.block)
        assert not (change.alive and change.block in born)
        born |= {change.block} if change.alive else set()
    assert born == set(range(len(trace.blocks)))


def test_counts_operations_and_samples_of_one_step() -> None:
    trace = traced(IMPORTS + 'model = nn.Linear(64, 32, bias=False).to("cuda")\n' + TRAIN)

    assert trace.samples_per_step == 8
    assert trace.flops_per_step == 2 * (2 * 8 * 64 * 32)  # forward, and the weight's gradient; the input has none


def test_recomputation_saves_activations_and_adds_no_operations_of_the_model() -> None:
    cell = (
        IMPORTS
        + """
from torch.utils.checkpoint import checkpoint
layers = nn.ModuleList(nn.Sequential(nn.Linear(64, 2048), nn.ReLU(), nn.Linear(2048, 64)) for _ in range(6)).cuda()
class Model(nn.Module):
    def forward(self, x):
        for layer in layers:
            x = {call}
        return x
model = Model()
optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
for _ in range(10):
    model(torch.randn(256, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    )
    plain = traced(cell.replace("{call}", "layer(x)"))
    again = traced(cell.replace("{call}", "checkpoint(layer, x, use_reentrant=False)"))

    assert ended_well(plain) and ended_well(again)
    assert peak_by_kind(again)["activation"] < 0.5 * peak_by_kind(plain)["activation"]
    assert again.flops_per_step == plain.flops_per_step


def test_reaches_the_evaluation_behind_the_training_loop() -> None:
    trace = traced(
        IMPORTS
        + CNN
        + LOADER
        + """
model = Net().cuda()
optimizer = torch.optim.Adam(model.parameters())
seen = [0, 0]
for epoch in range(100):
    for x, y in DataLoader(data, batch_size=8):
        seen[0] += 1
        loss = F.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad(); loss.backward(); optimizer.step()
    model.eval()
    for x, y in DataLoader(data, batch_size=8):
        seen[1] += 1
        with torch.no_grad():
            model(x.cuda())
assert seen == [2, 2], seen
"""
    )

    assert ended_well(trace)


def test_accumulates_before_it_steps() -> None:
    trace = traced(
        IMPORTS
        + """
model = nn.Linear(64, 64, bias=False).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
calls = 0
for step in range(100):
    for micro in range(4):
        calls += 1
        model(torch.randn(8, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
assert calls == 8, calls
"""
    )

    assert ended_well(trace)
    assert trace.samples_per_step == 32
    # Added in place, as autograd does on a GPU: one gradient, and one passing summand.
    gradients = [block for block in trace.blocks if block.kind == "gradient"]
    assert len(gradients) == 2 and peak_by_kind(trace)["gradient"] == 4 * 64 * 64


def test_trains_by_hand() -> None:
    trace = traced(
        """
        import torch
        w = torch.randn(100, 100, device="cuda", requires_grad=True)
        for i in range(10**9):
            (w @ w).sum().backward()
            with torch.no_grad():
                w -= 0.1 * w.grad
            w.grad = None
        """
    )

    assert (trace.status, trace.error, trace.steps) == ("completed", "", 0)


def test_model_and_optimizer_of_an_earlier_cell() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 4))
    model[0].bias.requires_grad_(False)
    optimizer = torch.optim.Adam(p for p in model.parameters() if p.requires_grad)
    before = hashed(*model.parameters())

    trace = traced(
        """
        import torch
        model.to(device)
        for step in range(100):
            optimizer.zero_grad()
            model(torch.randn(8, 64, device=device)).sum().backward()
            optimizer.step()
        """,
        lambda: {"model": model, "optimizer": optimizer, "device": "cpu"},
    )

    assert ended_well(trace)
    most = peak_by_kind(trace)
    trained = 4 * (64 * 64 + 64 * 4 + 4)
    assert (most["parameter"], most["gradient"]) == (trained + 4 * 64, trained)
    assert trained * 2 <= most["optimizer state"] < trained * 2 + 100
    assert trace.notes["device taken as cuda"] == 1
    assert hashed(*model.parameters()) == before and not optimizer.state
    assert all(p.device.type == "cpu" and p.grad is None for p in model.parameters())


def test_loops_in_functions_of_the_notebook(tmp_path: Path) -> None:
    notebook = tmp_path / "notebook.py"
    notebook.write_text(
        "def train(model, optimizer, seen=seen):\n"
        "    for step in range(10**9):\n"
        "        seen.append(step)\n"
        "        model(torch.randn(8, 64, device='cuda')).sum().backward()\n"
        "        optimizer.step()\n"
        "        optimizer.zero_grad()\n"
        "    return 'came to its end'\n"
    )
    namespace: dict[str, Any] = {"torch": torch, "seen": []}
    exec(compile(notebook.read_text(), str(notebook), "exec"), namespace)

    trace = traced(
        """
        model = torch.nn.Linear(64, 4).cuda()
        assert train(model, torch.optim.Adam(model.parameters())) == 'came to its end'
        assert seen == [0, 1], seen
        """,
        lambda: namespace,
    )

    assert ended_well(trace)


def test_a_loop_whose_source_is_unknown_ends_in_its_second_step() -> None:
    namespace: dict[str, Any] = {"torch": torch}
    exec(
        "def train(model, optimizer):\n    while True:\n"
        "        model(torch.randn(8, 64, device='cuda')).sum().backward(); optimizer.step()\n",
        namespace,
    )

    trace = traced("m = torch.nn.Linear(64, 4).cuda()\ntrain(m, torch.optim.Adam(m.parameters()))", lambda: namespace)

    assert (trace.status, trace.steps) == ("stopped", 2)
    assert "train()" in " ".join(trace.notes)


def test_magics_and_await_and_output() -> None:
    trace = traced(
        """
        import asyncio, sys, os
        get_ipython().run_line_magic("matplotlib", "inline")
        get_ipython().run_line_magic("time", "x = 3")
        get_ipython().system("rm -rf /")
        await asyncio.sleep(0)
        print("hello"); print("hello", file=sys.stderr); os.write(1, b"hello"); os.write(2, b"hello")
        assert x == 3
        """
    )

    assert (trace.status, trace.error) == ("completed", "")
    assert trace.notes == {"%matplotlib left out": 1, "shell commands left out": 1}


# What is left as it was


def test_nothing_here_changes(capfd: pytest.CaptureFixture[str]) -> None:
    model, data = nn.Linear(64, 64), torch.zeros(100)
    names = ("is_available", "device_count", "memory_allocated", "current_device")

    def state() -> str:
        return hashed(
            *model.parameters(), data, torch.get_rng_state(), random.getstate(), torch.get_num_threads(), os.environ,
            *(getattr(torch.cuda, name) for name in names), torch.load, torch.save, torch.compile, open, os.remove,
            nn.Module.to, nn.Module._apply, torch.optim.Optimizer.__init__, torch.autograd.graph._engine_run_backward,
            signal.getsignal(signal.SIGINT), os.listdir("/proc/self/fd"), torch._C._get_privateuse1_backend_name(),
        )  # fmt: skip

    before = state()
    trace = traced(
        """
        import torch, random
        torch.manual_seed(3); random.random(); torch.rand(3)
        data += 1
        model.weight.data.zero_()
        model.cuda()(torch.randn(8, 64, device="cuda")).sum().backward()
        print("heard by nobody")
        """,
        lambda: {"model": model, "data": data},
    )

    assert (trace.status, trace.error) == ("completed", "")
    assert state() == before
    assert capfd.readouterr() == ("", "")


def test_no_file_changes(tmp_path: Path) -> None:
    for name in ("kept.txt", "log.txt", "gone.txt"):
        (tmp_path / name).write_text(f"this is {name}")
    (tmp_path / "folder").mkdir()
    before = files(tmp_path)

    with (tmp_path / "log.txt").open("a") as log:
        trace = traced(
            f"""
            import torch, os, shutil, subprocess, numpy, safetensors.torch
            from pathlib import Path
            os.chdir({str(tmp_path)!r})
            log.write("a line"); log.flush(); os.write(log.fileno(), b"another")
            with open("kept.txt", "w") as file:
                file.write("overwritten")
            assert open("kept.txt").read() == "overwritten"
            with open("kept.txt", "a") as file:
                file.write(", and more")
            assert Path("kept.txt").read_text() == "overwritten, and more"
            Path("new").mkdir(); os.makedirs("a/b/c", exist_ok=True); Path("new/file").write_text("new")
            os.remove("gone.txt"); shutil.rmtree("folder"); os.rename("gone.txt", "renamed.txt")
            torch.save({{}}, "model.pt"); safetensors.torch.save_file({{}}, "model.safetensors")
            numpy.save("array.npy", numpy.zeros(3))
            os.close(os.open("lock", os.O_CREAT | os.O_RDWR))
            try:
                subprocess.run("echo overwritten > kept.txt; touch another", shell=True)
            except PermissionError:
                pass
            """,
            lambda: {"log": log},
        )

    assert (trace.status, trace.error) == ("completed", "")
    assert files(tmp_path) == before
    assert trace.notes["not written: torch.save"] == 1
    assert trace.notes["files written to a scratch directory"] >= 3


def test_no_server_hears_of_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        trace = traced(
            f"""
            import socket
            try:
                socket.create_connection(("127.0.0.1", {server.getsockname()[1]}), 1)
            except OSError as error:
                assert "an estimate" in str(error)
            """
        )

        assert (trace.status, trace.error) == ("completed", "")
        assert trace.notes["no connection made to a server"] == 1
        with pytest.raises(TimeoutError):
            server.accept()


def test_memory_shared_with_other_processes_is_only_ours_to_change(tmp_path: Path) -> None:
    array = np.memmap(tmp_path / "array", dtype=np.float32, mode="w+", shape=100_000)
    shared, anonymous = torch.zeros(100_000).share_memory_(), mmap.mmap(-1, 8192)

    trace = traced(
        """
        array[:] = 1
        shared.fill_(1)
        anonymous[:4] = b"1111"
        assert array.sum() == shared.sum() == 100_000
        """,
        lambda: {"array": array, "shared": shared, "anonymous": anonymous},
    )

    assert (trace.status, trace.error) == ("completed", "")
    assert (array.max(), shared.max(), anonymous[:4]) == (0, 0, bytes(4))


# What goes wrong


def test_the_users_own_error_with_its_line() -> None:
    trace = traced(IMPORTS + 'model = nn.Linear(16, 16).cuda()\nmodel(torch.randn(8, 15, device="cuda"))\n')

    assert trace.status == "failed"
    assert trace.error.endswith("RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x15 and 16x16)")
    assert trace.where == 'line 7 of the cell: model(torch.randn(8, 15, device="cuda"))'
    assert "gpufit/" not in trace.error and "_subclasses" not in trace.error


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
    trace = traced("x = 1\ny = = 2\n")

    assert trace.status == "failed" and trace.where.startswith("line 2 of the cell")


def test_what_cannot_be_traced_is_not_called_the_users_error() -> None:
    trace = traced(
        """
        import torch
        torch.randn(10, device="cuda").repeat_interleave(torch.arange(10, device="cuda"))
        """
    )

    assert trace.status == "died" and trace.where.startswith("line 3")
    assert trace.error.startswith("What aten.repeat_interleave.Tensor makes depends on values")


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
    with pytest.raises((ProcessLookupError, FileNotFoundError)):
        while True:  # until init has reaped it
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                raise ProcessLookupError


def test_a_torch_without_what_we_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jupyter_gpufit.estimate.child", None)

    trace = traced("x = 1")

    assert trace.status == "died" and trace.error.startswith("This version of torch cannot be traced: import of")


def test_a_torch_without_what_we_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch._C, "_set_only_lift_cpu_tensors")

    trace = traced("x = 1")

    assert trace.status == "died" and "cannot be traced: module 'torch._C' has no attribute" in trace.error


# What it is asked from outside


def test_a_trace_that_is_no_longer_wanted_ends_at_once() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.send(b"x")

        trace = traced("while True: pass", stop=theirs.fileno())

    assert trace.status == "timeout" and trace.seconds < 5


def test_a_question_is_answered_by_a_copy() -> None:
    asked: list[int] = []

    def question() -> bool:
        asked.append(1)
        return len(asked) == 1

    assert ask_child(question, limit=30) is True
    assert asked == []
    assert ask_child(lambda: False, limit=30) is False
    assert ask_child(lambda: bool(1 / 0), limit=30) is None


def test_a_library_that_marks_functions_for_the_compiler_does_not_load_it() -> None:
    trace = traced(
        """
        import sys, torch
        there = "torch._dynamo.eval_frame" in sys.modules  # in this process, by another test
        from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex as one
        @torch._dynamo.assume_constant_result
        def f(x):
            return x
        torch._dynamo.mark_static_address(torch.ones(2))
        assert f(3) == 3 and ("torch._dynamo.eval_frame" in sys.modules) == there
        import torch._dynamo.eval_frame  # and who does want it gets the real one
        from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex as two
        assert one is two and torch._dynamo.OptimizedModule
        """
    )

    assert (trace.status, trace.error) == ("completed", "")


def test_what_was_seen_before_a_trace_broke_off_bounds_the_memory_from_below() -> None:
    cell = """
        import torch
        w = torch.ones(1 << 20, device="cuda")
        torch.randn(10, device="cuda").repeat_interleave(torch.arange(10, device="cuda"))
        """
    answer = look(dedent(cell), dict, Ask(card=A100, context=Context(0, 0, "")))

    assert answer.estimate.need is None and answer.estimate.low >= 4 << 20
    assert any("held 4.0 MiB" in reason for reason in answer.estimate.reasons)
