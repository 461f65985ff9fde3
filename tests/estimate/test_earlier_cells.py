"""Cells whose setup stands in an earlier cell, as notebooks have it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from jupyter_gpufit.devices.cards import Context
from jupyter_gpufit.estimate.asking.ask import Ask
from jupyter_gpufit.estimate.asking.look import look, main_module, opened_privately
from jupyter_gpufit.estimate.reckoning.learned import signature
from jupyter_gpufit.estimate.tracing.trace import trace_cell
from jupyter_gpufit.graph import ship
from jupyter_gpufit.graph.kinds import parents
from tests.estimate.asked import CPU_ONLY, MODEL, TRAIN, after, estimated
from tests.estimate.traced import A100


class Awkward:
    """Refuses every question."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"do not ask for {name}")

    def __repr__(self) -> str:
        raise RuntimeError("no words")

    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __bool__(self) -> bool:
        raise RuntimeError("neither")


class Texts(str):
    def __repr__(self) -> str:
        raise RuntimeError("no words")


class Length(list[int]):
    def __len__(self) -> int:
        raise RuntimeError("no length")


@pytest.mark.parametrize(
    "value",
    [
        sys.modules["json"],
        type("Shape", (), {"shape": 3, "dtype": 4}),
        Awkward,
        MagicMock(),
        Texts("a"),
        Length(),
    ],
    ids=["module", "class", "awkward class", "mock", "text", "list"],
)
def test_the_key_survives_every_object(value: object) -> None:
    assert signature("use(x)", {"x": value}) == signature("use(x)", {"x": value})


def test_the_key_survives_an_object_that_answers_nothing() -> None:
    assert signature("use(x)", {"x": Awkward()}) == signature("use(x)", {"x": Awkward()})


def test_the_key_of_a_cell_with_numpy() -> None:
    import numpy as np

    assert signature("np.ones(3)", {"np": np}) == signature("np.ones(3)", {"np": np})
    assert signature("use(x)", {"x": np.ones(3)}) != signature("use(x)", {"x": np.ones(4)})


@pytest.mark.slow
def test_a_cell_that_reads_what_an_earlier_one_imported() -> None:
    answer = estimated(MODEL, TRAIN)

    assert (answer.estimate.how, answer.estimate.steps, answer.failure) == ("trace", 2, "")
    assert answer.estimate.by_kind["parameters"] == 4 * (256 * 1024 * 2 + 1024 + 256)
    assert answer.key


@pytest.mark.slow
def test_a_cell_beside_objects_that_refuse_every_question() -> None:
    space = after(MODEL)()
    space.update(
        awkward=Awkward(), mock=MagicMock(), kind=Awkward, text=Texts("a"), items=Length(), device=Texts("cpu")
    )

    answer = look(TRAIN, lambda: space, Ask(card=A100, context=Context(0, 0, "none"), limit=300.0))

    assert (answer.estimate.how, answer.estimate.steps) == ("trace", 2)


@pytest.mark.slow
def test_variables_that_cannot_be_opened_are_told_by_their_error() -> None:
    def refuse() -> dict[str, object]:
        raise ValueError("this file is\nnot there any more")

    answer = look(TRAIN, refuse, Ask(card=A100, context=Context(0, 0, "none"), limit=300.0))

    assert answer.estimate.how == "nothing"
    assert answer.estimate.reasons[0] == "the trial run could not be made: ValueError: this file is not there any more"


@pytest.mark.slow
def test_a_crash_is_told_by_its_signal() -> None:
    answer = estimated("import os", "import torch\nos.abort()")

    assert answer.estimate.reasons[0].startswith(
        "the trial run could not be made: its process ended unexpectedly (SIGABRT)"
    )
    assert "os.abort()" in answer.estimate.reasons[0]


AFTER_THE_STEPS = {
    "an index": "losses[50]",
    "a file that the loop would have written": 'torch.load("best.pt")',
    "a crash": "import os\nos.abort()",
    "the end of its process": "import os\nos._exit(3)",
    "an exit": "raise SystemExit(3)",
    "an assertion": "assert losses[-1] < 0.5",
    "a server": "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:9')",
    "a limit of fake tensors": """
@torch.library.custom_op("notebook::counted", mutates_args=())
def counted(x: torch.Tensor) -> torch.Tensor:
    return x[: int(x.sum())].clone()

counted(torch.ones(3, device="cuda"))
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", AFTER_THE_STEPS)
def test_what_goes_wrong_after_the_steps_costs_no_number(name: str) -> None:
    answer = estimated(MODEL, TRAIN + AFTER_THE_STEPS[name])

    estimate = answer.estimate
    assert (estimate.how, estimate.steps, answer.failure) == ("trace", 2, "")
    assert estimate.need is not None and estimate.confidence in ("high", "medium")
    assert any("after the steps" in reason for reason in estimate.reasons)


@pytest.mark.slow(11)
def test_a_wait_without_end_after_the_steps_costs_no_number() -> None:
    ask = Ask(card=A100, context=Context(0, 0, "none"), limit=10.0)
    answer = look(TRAIN + "import time\nwhile True: time.sleep(0.01)", after(MODEL), ask)

    assert (answer.estimate.how, answer.estimate.steps) == ("trace", 2)
    assert "while True: time.sleep(0.01)" in " ".join(answer.estimate.reasons)


@pytest.mark.slow
def test_an_error_in_the_second_step_keeps_the_number_with_low_confidence() -> None:
    answer = estimated(MODEL, TRAIN + "    history[i]\n" + "print(1)")

    assert (answer.estimate.how, answer.estimate.steps) == ("trace", 1)
    assert answer.estimate.confidence == "low" and "NameError" in " ".join(answer.estimate.reasons)


@pytest.mark.slow
def test_an_error_before_the_first_step_is_the_users() -> None:
    answer = estimated(MODEL, TRAIN.replace("256).astype", "255).astype"))

    assert answer.estimate.how == "closed form" and "mat1 and mat2 shapes" in answer.failure


@pytest.mark.slow
def test_a_cell_that_uses_no_gpu_is_told_so() -> None:
    answer = estimated(MODEL, CPU_ONLY)

    assert answer.estimate.reasons[0] == "this cell uses no GPU"
    assert answer.failure == ""


LOADERS = (
    MODEL
    + """
from types import SimpleNamespace
from torch.utils.data import DataLoader, TensorDataset
batch = 16
data = TensorDataset(torch.randn(4096, 256))
loader = DataLoader(data, batch_size=batch, shuffle=True)
def make_loader():
    return DataLoader(data, batch_size=batch)
args = SimpleNamespace(batch_size=16)
class Config:
    batch_size = 16
settings = {"batch_size": 16}
def run(batch=16):
    train(DataLoader(data, batch_size=batch))
def train(batches):
    model.to("cuda")
    for (x,) in batches:
        loss = model(x.to("cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
)
SWEPT = {
    "a loader": ("batch", "train(loader)"),
    "loaders in a dictionary": ("batch", "train({'train': loader}['train'])"),
    "a loader with a written number": ("batch_size", "train(loader)"),
    "a function": ("batch", "train(make_loader())"),
    "a default": ("batch", "run()"),
    "arguments": ("batch_size", "train(DataLoader(data, batch_size=args.batch_size))"),
    "a class": ("batch_size", "train(DataLoader(data, batch_size=Config.batch_size))"),
    "a dictionary": ("batch_size", "train(DataLoader(data, batch_size=settings['batch_size']))"),
}


@pytest.mark.slow
@pytest.mark.parametrize("where", SWEPT)
def test_other_values_reach_what_earlier_cells_made(where: str) -> None:
    name, cell = SWEPT[where]
    was = {"batch": 16} if name == "batch" else {}
    ask = Ask(card=A100, context=Context(0, 0, "none"), limit=300.0, values={name: 512})

    answer = look(cell, after(LOADERS), ask, was=was)

    assert (answer.failure, answer.unread, answer.estimate.steps) == ("", (), 2)
    assert answer.estimate.samples_per_step == 512


@pytest.mark.slow
def test_a_name_that_nothing_reads_is_told() -> None:
    ask = Ask(card=A100, context=Context(0, 0, "none"), limit=300.0, values={"bach": 512})

    assert look("train(loader)", after(LOADERS), ask).unread == ("bach",)


@pytest.mark.slow
def test_the_accelerator_is_cuda() -> None:
    cell = """
device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
assert device.type == "cuda" and torch.accelerator.device_count() == 1
torch.accelerator.synchronize()
""" + TRAIN.replace('"cuda"', "device")

    answer = estimated(MODEL, cell)

    assert (answer.failure, answer.estimate.how, answer.estimate.steps) == ("", "trace", 2)


VECTOR = """
import multiprocessing, torch
from tests.graph.vectors import Vector
envs = Vector([lambda: 1, lambda: 5])
"""
STEPS = """
net = torch.nn.Linear(2, 2).cuda(); optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
shared = multiprocessing.Array("d", 4)
for i in range(5):
    x = torch.tensor(envs.step(1), dtype=torch.float32, device="cuda")
    net(x).sum().backward(); optimizer.step(); optimizer.zero_grad()
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_environments_of_an_earlier_cell_answer_in_its_trace() -> None:
    parents.watch()
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(VECTOR, namespace)
    try:
        shipped = ship(["envs", "torch", "multiprocessing"], namespace)
        trace = trace_cell(
            STEPS, lambda: opened_privately(shipped.graph, shipped.memory, main_module()), A100, limit=300.0
        )
    finally:
        namespace["envs"].close()
        parents.forget()

    assert (trace.error, trace.steps) == ("", 2)


@pytest.mark.slow(1)
def test_a_module_that_tries_itself_on_the_device_as_it_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker imports it when it opens the variables, before the cell begins."""
    (tmp_path / "beside_notebook.py").write_text(
        "import torch\nclass Net(torch.nn.Linear):\n    pass\n"
        "device = 'cuda' if torch.cuda.is_available() else 'cpu'\n"
        "tried = Net(256, 256).to(device)(torch.ones(2, 256).to(device)); kept = torch.ones(3)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def opened() -> dict[str, object]:
        return {"beside": importlib.import_module("beside_notebook")}

    trace = trace_cell(
        "import torch\nassert beside.tried.is_cuda and beside.device == 'cuda' and beside.kept.device.type == 'cpu'\n"
        "net = beside.Net(256, 256).to(beside.device); opt = torch.optim.SGD(net.parameters(), 0.1)\n"
        "for _ in range(3):\n"
        "    loss = (net(beside.tried.detach()).mean() + beside.kept.sum().item()) / 2\n"
        "    opt.zero_grad(); loss.backward(); opt.step()\n",
        opened,
        A100,
        limit=300.0,
    )

    assert (trace.status, trace.error) == ("completed", "") and trace.steps >= 2


@pytest.mark.slow(5)
@pytest.mark.filterwarnings("ignore:.torch.jit")
def test_a_model_that_torchscript_has_compiled() -> None:
    setup = MODEL.replace("optimizer =", "model = torch.jit.script(model)\noptimizer =")

    compiled, plain = estimated(setup, TRAIN), estimated(MODEL, TRAIN)

    assert compiled.failure == "", compiled.failure
    assert compiled.estimate.need == plain.estimate.need


@pytest.mark.slow(1)
def test_a_model_with_another_kind_of_table_in_the_place_of_its_parameters() -> None:
    """EvolveGCN's: none of torch's own methods that list them works there, and its forward does."""
    setup = MODEL + (
        "class Evolving(nn.Module):\n"
        "    def __init__(self, inner):\n"
        "        super().__init__()\n"
        "        self.inner = inner\n"
        "        self._parameters = nn.ParameterList(inner.parameters())\n"
        "    def parameters(self): return self._parameters\n"
        "    def forward(self, x): return self.inner(x)\n"
        "model.to('cuda') if torch.cuda.is_available() else None\n"
        "inner, model = model, Evolving(model)\noptimizer = torch.optim.AdamW(model.parameters())\n"
    )

    answer = estimated(setup, TRAIN.replace('model.to("cuda")', 'inner.to("cuda")'))

    assert answer.failure == "" and answer.estimate.how == "trace" and answer.estimate.steps == 2
