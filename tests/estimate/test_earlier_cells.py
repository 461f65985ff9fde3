"""Cells whose setup stands in an earlier cell, as notebooks have it."""

from __future__ import annotations

import linecache
import sys
import types
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any
from unittest.mock import MagicMock

import pytest

from jupyter_gpufit.devices.cards import Context
from jupyter_gpufit.estimate.asking.ask import Ask, TraceAnswer
from jupyter_gpufit.estimate.asking.look import look
from jupyter_gpufit.estimate.reckoning.learned import signature
from tests.estimate.traced import A100

MODEL = """
import numpy as np
import torch
from torch import nn
model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256))
optimizer = torch.optim.AdamW(model.parameters())
"""
TRAIN = """
model.to("cuda")
losses = []
for i in range(100):
    x = torch.from_numpy(np.random.randn(64, 256).astype(np.float32)).to("cuda")
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""


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


def after(setup: str) -> Callable[[], dict[str, object]]:
    """The variables that an earlier cell leaves."""
    module = types.ModuleType("__main__")
    source, name = dedent(setup), "<earlier cell>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), vars(module))
    return lambda: vars(module)


def estimated(setup: str, cell: str, **options: Any) -> TraceAnswer:
    ask = Ask(card=A100, context=Context(0, 0, "none"), limit=300.0, **options)
    return look(dedent(cell), after(setup), ask)


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

    assert answer.estimate.reasons[0].startswith("the trial run could not be made: SIGABRT ended it")
    assert "os.abort()" in answer.estimate.reasons[0]


AFTER_THE_STEPS = {
    "an index": "losses[50]",
    "a file that the loop would have written": 'torch.load("best.pt")',
    "a crash": "import os\nos.abort()",
    "the end of its process": "import os\nos._exit(3)",
    "an exit": "raise SystemExit(3)",
    "an assertion": "assert losses[-1] < 0.5",
    "a server": "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:9')",
    "a limit of fake tensors": "torch.ones(3, device='cuda').repeat_interleave(torch.arange(3, device='cuda'))",
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


CPU_ONLY = """
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(10):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""


@pytest.mark.slow
def test_a_cell_that_uses_no_gpu_is_told_so() -> None:
    answer = estimated(MODEL, CPU_ONLY)

    assert answer.estimate.reasons[0] == "this cell uses no GPU"
    assert answer.failure == ""


@pytest.mark.slow
def test_nor_does_one_that_trips_over_what_a_shorter_loop_left_undone() -> None:
    kept = CPU_ONLY.replace("for i", "kept = []\nfor i") + "    if i == 9: kept.append(i)\nkept[0]\n"
    answer = estimated(MODEL, kept)

    assert answer.estimate.reasons[0] == "this cell uses no GPU"
    assert "after the steps that were watched the trial run ended: IndexError" in answer.estimate.reasons[1]
    assert answer.failure == "" and not answer.estimate.needs_none


VALIDITY = {
    "distributions": """
        p = torch.distributions.Normal(model(x), 1.0)
        loss = -p.log_prob(x).mean() - torch.distributions.Categorical(model(x).softmax(-1)).entropy().mean()
    """,
    "not all": """
        if not torch.isfinite(model(x)).all():
            raise ValueError(f"not finite in step {i}: {[str(n) for n in range(3)]}")
        loss = model(x).mean()
    """,
    "any": """
        if torch.isnan(model(x)).any() or bool((x > 4).any()):
            raise ValueError
        loss = model(x).mean()
    """,
    "assert": """
        loss = model(x).mean()
        assert torch.isfinite(loss) and (loss == loss).item(), "diverged"
    """,
    "a function that returns it": """
        def fine(t): return torch.isfinite(t).all()
        loss = model(x).mean()
        if not fine(loss): raise RuntimeError
    """,
    "allclose": """
        loss = model(x).mean()
        assert torch.allclose(loss, loss)
        assert torch.equal(x, x)
    """,
    "leaving": """
        loss = model(x).mean()
        if not torch.isfinite(loss):
            print("stopped")
            break
    """,
    "leaving, where what comes behind gives up": """
        def factor(a):
            factors, info = torch.linalg.cholesky_ex(a)
            if not torch.any(info):
                return factors
            for jitter in range(3):
                factors, info = torch.linalg.cholesky_ex(a + jitter)
                if not torch.any(info): return factors
            raise ValueError("not positive definite")
        for tries in range(3):
            if torch.isfinite(factor(x.T @ x)).all():
                break
        else:
            raise ValueError("never finite")
        loss = model(x).mean()
    """,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", VALIDITY)
def test_checks_of_values_that_nobody_has_are_passed(name: str) -> None:
    body = dedent(VALIDITY[name]).strip().replace("\n", "\n    ")
    cell = f"""
model.to("cuda")
for i in range(10):
    x = torch.randn(64, 256, device="cuda")
    {body}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    answer = estimated(MODEL, cell)

    assert (answer.estimate.how, answer.estimate.steps, answer.failure) == ("trace", 2, "")


@pytest.mark.slow
def test_a_model_left_on_the_cpu_is_named() -> None:
    answer = estimated(MODEL, TRAIN.replace('model.to("cuda")', ""))

    reason = answer.estimate.reasons[0]
    assert "Expected all tensors to be on the same device" in reason
    assert '(model on the CPU: model.to("cuda") in this cell moves it)' in reason


STEP = "loss = F.mse_loss(model(x.to('cuda')), x.to('cuda'))"
BY_HAND = {
    "data": "loss.backward()\n    for p in model.parameters():\n        p.data -= 0.1 * p.grad",
    "no grad": "loss.backward()\n    with torch.no_grad():\n"
    "        for p in model.parameters():\n            p -= 0.1 * p.grad",
    "autograd.grad": "grads = torch.autograd.grad(loss, list(model.parameters()))\n    with torch.no_grad():\n"
    "        for p, g in zip(model.parameters(), grads):\n            p.sub_(0.1 * g)",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_HAND)
def test_a_training_without_an_optimizer(name: str) -> None:
    cell = f"""
import torch.nn.functional as F
model.to("cuda")
for i in range(10**9):
    x = torch.randn(64, 256)
    {STEP}
    model.zero_grad()
    {BY_HAND[name]}
"""
    estimate = estimated(MODEL[: MODEL.index("optimizer")], cell).estimate

    assert (estimate.how, estimate.steps, estimate.confidence) == ("trace", 2, "high")
    assert estimate.flops_per_step == 3 * 2 * 64 * 256 * 1024 * 2 - 2 * 64 * 256 * 1024
    assert "gradients" in estimate.by_kind


SEVERAL = """
import torch.multiprocessing as mp
def train(rank, model, queue=None):
    model.to("cuda")
    optimizer = torch.optim.AdamW(model.parameters())
    for i in range(10**9):
        loss = model(torch.randn(64, 256, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
def produce(queue, ready):
    for i in range(10):
        queue.put(i)
    ready.set()
def consume(queue):
    while True:
        queue.get()
def square(x):
    return x * x
def answer(end, other):
    other.close()
    while (asked := end.recv()) != "close":
        end.send([asked] * 100_000)
    end.close()
"""
PROCESSES = {
    "spawn": "mp.spawn(train, args=(model,), nprocs=2, join=True)",
    "processes": """
        model.share_memory()
        lock = mp.Lock()
        with lock:
            all_of_them = [mp.Process(target=train, args=(rank, model)) for rank in range(2)]
        for one in all_of_them: one.start()
        for one in all_of_them: one.join()
        assert all_of_them[0].exitcode == 0 and not all_of_them[0].is_alive()
    """,
    "one that gives": """
        queue, ready = mp.Queue(), mp.Event()
        producer = mp.Process(target=produce, args=(queue, ready))
        producer.start()
        ready.wait()
        assert sum(queue.get() for i in range(10)) == 45
        producer.join()
        train(0, model)
    """,
    "one that takes": """
        queue = mp.Queue()
        consumer = mp.Process(target=consume, args=(queue,))
        consumer.start()
        queue.put(1)
        train(0, model)
        consumer.terminate()
    """,
    "those that answer, as environments do": """
        pipes = [mp.Pipe() for _ in range(2)]
        workers = [mp.Process(target=answer, args=(theirs, ours), daemon=True) for ours, theirs in pipes]
        for worker in workers: worker.start()
        for _, theirs in pipes: theirs.close()
        for number, (ours, _) in enumerate(pipes): ours.send(number)
        assert [ours.recv()[-1] for ours, _ in pipes] == [0, 1] and workers[0].is_alive()
        for ours, _ in pipes: ours.send("close")
        for worker in workers: worker.join()
        assert not workers[0].is_alive() and workers[0].exitcode == 0
        train(0, model)
    """,
    "pools": """
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing.pool import ThreadPool
        with mp.Pool(2) as pool:
            assert pool.map(square, range(3)) == [0, 1, 4] and pool.apply_async(square, (3,)).get() == 9
        with ThreadPool(2) as pool:
            assert list(pool.imap(square, range(3))) == [0, 1, 4]
        with ProcessPoolExecutor(2) as pool:
            assert list(pool.map(square, range(3))) == [0, 1, 4]
        train(0, model)
    """,
    "a manager": """
        with mp.Manager() as manager:
            shared = manager.dict(a=1)
        train(0, model)
    """,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROCESSES)
def test_other_processes_run_in_this_one(name: str) -> None:
    answer = estimated(MODEL + SEVERAL, dedent(PROCESSES[name]))

    assert (answer.failure, answer.estimate.how, answer.estimate.steps) == ("", "trace", 2)


@pytest.mark.slow
def test_questions_are_answered_and_databases_copied(tmp_path: Path) -> None:
    database = tmp_path / "runs.sqlite"
    asking = f"""
name = input("A name for the run: ")
epochs = int(input("How many epochs: "))
assert input("Go on? [y/n] ") == "y"
import sqlite3
runs = sqlite3.connect({str(database)!r})
runs.execute("create table runs (name)")
runs.commit()
"""
    answer = estimated(MODEL, asking + TRAIN)

    assert (answer.failure, answer.estimate.steps) == ("", 2)
    assert not database.exists()


UNCOMMON = {
    "a tensor of tensors": "loss = model(x).mean() + torch.tensor([t.mean() for t in x[:3]], device='cuda').mean()",
    "counting": "loss = model(x).mean() + torch.bincount(x.abs().long().flatten(), minlength=7).float().mean()",
    "a Beta distribution": "loss = torch.distributions.Beta(model(x).abs(), model(x).abs()).rsample().mean()",
    "CTC": """
        y = model(x).view(64, 2, 128).log_softmax(-1)
        lengths = torch.full((2,), 64), torch.full((2,), 5, device="cuda")
        loss = torch.nn.functional.ctc_loss(y, torch.ones(2, 10, dtype=torch.long, device="cuda"), *lengths)
    """,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", UNCOMMON)
def test_operators_without_fake_kernels(name: str) -> None:
    body = dedent(UNCOMMON[name]).strip().replace("\n", "\n    ")
    cell = f"""
model.to("cuda")
for i in range(10):
    x = torch.randn(64, 256, device="cuda")
    {body}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    answer = estimated(MODEL, cell)

    assert (answer.failure, answer.estimate.how, answer.estimate.steps) == ("", "trace", 2)


COLLECTING = """
import numpy as np
import torch
from torch import nn
class Env:
    def __init__(self): self.time = 0
    def step(self, action):
        self.time += 1
        return np.ones(8, dtype=np.float32), 1.0, self.time % 20 == 0
env = Env()
policy = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 4))
optimizer = torch.optim.Adam(policy.parameters())
memory = []
def learn():
    if len(memory) < 300:
        return
    batch = torch.from_numpy(np.stack([memory[i] for i in np.random.randint(0, len(memory), 256)])).to("cuda")
    loss = policy(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
COLLECT = """
policy.to("cuda")
state = np.zeros(8, dtype=np.float32)
for step in range(10**9):
    with torch.no_grad():
        action = policy(torch.from_numpy(state).to("cuda")).argmax().item()
    state, reward, done = env.step(action)
    memory.append(state)
    learn()
"""


@pytest.mark.slow
def test_a_loop_that_collects_before_it_trains_is_not_taken_for_an_evaluation() -> None:
    estimate = estimated(COLLECTING, COLLECT).estimate

    assert (estimate.how, estimate.steps, estimate.confidence) == ("trace", 2, "high")


@pytest.mark.slow
def test_a_cell_whose_optimizer_made_no_step_is_not_to_be_relied_on() -> None:
    estimate = estimated(COLLECTING, COLLECT.replace("10**9", "9")).estimate

    assert (estimate.steps, estimate.confidence) == (0, "low")


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
