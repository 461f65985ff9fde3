"""Tracing a cell: what is seen, and what the traced process is asked from outside."""

from __future__ import annotations

import socket
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import torch
from torch import nn

from jupyter_gpufit.cuda.stand_in.uncompiled import COMPILED
from jupyter_gpufit.devices.cards import Context
from jupyter_gpufit.estimate.asking.ask import Ask
from jupyter_gpufit.estimate.asking.look import look
from jupyter_gpufit.estimate.reckoning.record import Trace
from jupyter_gpufit.surroundings import magics
from tests.estimate.cells import IMPORTS
from tests.estimate.traced import A100, hashed, peak_by_kind, traced

pytestmark = pytest.mark.slow

TRAIN = """
optimizer = torch.optim.Adam(model.parameters())
for step in range(100):
    loss = model(torch.randn(8, 64, device="cuda")).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


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


def test_a_product_that_is_told_its_results_dtype_is_counted() -> None:
    """trl sums up gradients of its head so; torch's formula takes the dtype for a shape."""
    cell = IMPORTS + 'model = nn.Linear(64, 32, bias=False).to("cuda")\n' + TRAIN
    half = "half = dict(dtype=torch.bfloat16, device='cuda')\n"
    gemms = half + "a, b = torch.empty(8, 64, **half), torch.empty(64, 32, **half)"
    cell = cell.replace("for step", gemms + "\nacc = torch.zeros(8, 32, device='cuda')\nfor step")
    told = "    torch.addmm(acc, a, b, out_dtype=torch.float32, out=acc); torch.mm(a, b, out_dtype=torch.float32)\n"
    trace = traced(cell + told)

    assert ended_well(trace)
    assert trace.flops_per_step == 2 * (2 * 8 * 64 * 32) + 2 * (2 * 8 * 64 * 32)


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

    assert (trace.status, trace.error, trace.steps) == ("completed", "", 2)  # a backward is taken for its step


def test_a_librarys_own_loop_and_optimizer_are_left_after_some_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "fastest.py").write_text(
        "import torch\n"
        "class Optimizer:\n"  # none of torch's
        "    def __init__(self, model): self.parameters, self.kept = [*model.parameters()], {}\n"
        "    @torch.no_grad()\n"
        "    def step(self):\n"
        "        for p in self.parameters:\n"
        "            self.kept[p] = self.kept.get(p, 0) * 0.9 + p.grad\n"
        "            p -= 0.1 * self.kept[p]; p.grad = None\n"
        "def fit(model, many):\n"
        "    optimizer = Optimizer(model)\n"
        "    for n in range(many):\n"
        "        model(torch.randn(8, 64, device='cuda')).sum().backward(); optimizer.step()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))

    trace = traced("import torch, fastest\nfastest.fit(torch.nn.Linear(64, 64).cuda(), 10**9)\n", limit=60)

    assert trace.status == "stopped" and 2 <= trace.steps <= 10
    assert peak_by_kind(trace)["parameter"] == 4 * 65 * 64


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
        lambda: {"model": model, "optimizer": optimizer, "device": "cuda"},
    )

    assert ended_well(trace)
    most = peak_by_kind(trace)
    trained = 4 * (64 * 64 + 64 * 4 + 4)
    assert (most["parameter"], most["gradient"]) == (trained + 4 * 64, trained)
    assert trained * 2 <= most["optimizer state"] < trained * 2 + 100
    assert hashed(*model.parameters()) == before and not optimizer.state
    assert all(p.device.type == "cpu" and p.grad is None for p in model.parameters())


def test_a_device_that_the_user_named_is_meant() -> None:
    trace = traced(
        """
        import torch
        made = torch.ones(1 << 20, device=device)
        """,
        lambda: {"device": "cpu"},
    )

    assert trace.status == "completed" and not peak_by_kind(trace)


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


def test_a_loop_whose_source_is_unknown_ends_in_its_second_step_whoever_else_is_there() -> None:
    other = torch.optim.SGD([torch.zeros(3, requires_grad=True)])  # of an earlier cell; it takes no part
    namespace: dict[str, Any] = {"torch": torch, "other": other}
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
        get_ipython().run_line_magic("timeit", "-n 1 -r1 -q globals().update(y = -1)")
        get_ipython().system("rm -rf /")
        await asyncio.sleep(0)
        print("hello"); print("hello", file=sys.stderr); os.write(1, b"hello"); os.write(2, b"hello")
        assert (x, y) == (3, -1)
        """
    )

    assert (trace.status, trace.error) == ("completed", "")
    assert trace.notes == {"%matplotlib left out": 1, "shell commands left out": 1}


def test_a_variable_of_the_environment_and_a_folder_that_magics_set_are_there(tmp_path: Path) -> None:
    (tmp_path / "some data").mkdir()
    trace = traced(
        f"""
        import os
        shell = get_ipython().run_line_magic
        shell("env", "ONE=1")
        shell("env", "TWO  2 and 3")
        shell("set_env", "ONE_MORE = a=b")
        shell("cd", "-q '{tmp_path}/some data'")
        assert [os.environ[name] for name in ("ONE", "TWO", "ONE_MORE")] == ["1", "2 and 3", "a=b"]
        assert os.path.basename(os.getcwd()) == "some data"
        """
    )

    assert (trace.status, trace.error, trace.notes) == ("completed", "", {})


def test_a_cell_magic_of_the_notebooks_own_runs_its_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    namespace: dict[str, Any] = {}
    exec("def only(line, cell): get_ipython().run_cell(cell)", namespace)
    monkeypatch.setitem(magics.functions, ("cell", "only"), namespace["only"])

    trace = traced("get_ipython().run_cell_magic('only', '', '%time x = 3\\nassert x == 4\\n')", lambda: namespace)

    assert trace.status == "failed" and "AssertionError" in trace.error


# What it is asked from outside


def test_a_trace_that_is_no_longer_wanted_ends_at_once() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.send(b"x")

        trace = traced("while True: pass", stop=theirs.fileno())

    assert trace.status == "timeout" and trace.seconds < 5


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


def test_a_function_that_is_compiled_and_never_called_says_nothing_of_the_training() -> None:
    """As libraries do at their import: what is compiled is kept from the host."""
    cell = """
        import torch
        @torch.compile
        def halved(x):
            return x / 2
        {}
        torch.ones(2, device="cuda")
        """

    assert COMPILED not in traced(cell.format("double = torch.compile(dynamic=True)(halved)")).notes
    assert COMPILED in traced(cell.format("assert halved(torch.ones(2)).sum() == 1")).notes


def test_what_was_seen_before_a_trace_broke_off_bounds_the_memory_from_below() -> None:
    cell = """
        import torch
        w = torch.ones(1 << 20, device="cuda")
        torch.ops.aten.unique_dim_consecutive(torch.randn(10, device="cuda"), 0)
        """
    answer = look(dedent(cell), dict, Ask(card=A100, context=Context(0, 0, "")))

    assert answer.estimate.need is None and answer.estimate.low >= 4 << 20
    assert any("held 4.0 MiB" in reason for reason in answer.estimate.reasons)


def test_the_type_of_a_tensor_names_its_device() -> None:
    """An old idiom for making another one beside it: YOLOX's head."""
    trace = traced(
        """
        import torch
        from torch import nn
        model = nn.Linear(64, 64).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(3):
            out = model(torch.ones(8, 64, device="cuda"))
            assert out.type() == "torch.cuda.FloatTensor" and torch.ones(1).type() == "torch.FloatTensor"
            loss = (out + torch.arange(64).type(out.type())).square().mean()
            optimizer.zero_grad(); loss.backward(); optimizer.step()
        """
    )
    assert trace.status == "completed", trace.error


@pytest.mark.parametrize("search", ["None", "'strong_wolfe'"])
def test_a_step_that_evaluates_its_closure_thousands_of_times_is_as_many_steps(search: str) -> None:
    """Of a network for physics: one call is the whole training. A line search divides by what was guessed."""
    trace = traced(
        f"""
        import torch
        from torch import nn
        model = nn.Sequential(nn.Linear(2, 20), nn.Tanh(), nn.Linear(20, 1)).cuda()
        x = torch.rand(200, 2).cuda(); y = torch.sin(x[:, :1])
        optimizer = torch.optim.LBFGS(
            model.parameters(), max_iter=100_000, tolerance_grad=0, tolerance_change=0, line_search_fn={search}
        )
        calls = 0
        def closure():
            global calls
            calls += 1
            optimizer.zero_grad()
            loss = (model(x) - y).pow(2).mean()
            loss.backward()
            return loss
        optimizer.step(closure)
        """
    )
    assert trace.status == "stopped", trace.error
    assert trace.steps == 2 and trace.trained
