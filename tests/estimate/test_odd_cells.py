"""Cells that do what a trial run cannot do in earnest: unknown values, no optimizer, processes, uncommon operators."""

from __future__ import annotations

import inspect
from multiprocessing.pool import Pool
from pathlib import Path
from textwrap import dedent, indent

import pytest

from jupyter_gpufit.estimate.tracing.processes import _Pool
from tests.estimate.asked import CPU_ONLY, MODEL, TRAIN, estimated


def trained_with(body: str) -> str:
    """A training cell whose loss is made by `body`."""
    within = indent(dedent(body).strip(), "    ")
    return f"""
model.to("cuda")
for i in range(10):
    x = torch.randn(64, 256, device="cuda")
{within}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


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
    "assert over lines": """
        loss = model(x).mean()
        assert (
            loss == loss
        ).all(), "diverged"
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
        if not all(torch.equal(a, b) for a, b in zip([x], [x.clone()], strict=True)):
            raise RuntimeError("train on the training inputs")
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
    answer = estimated(MODEL, trained_with(VALIDITY[name]))

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
            assert pool.imap(func=square, iterable=range(3)).next(timeout=9) == 0
            told = []
            failed = pool.apply_async(square, ("no",), error_callback=told.append)
            assert not failed.successful() and isinstance(told[0], TypeError)
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


@pytest.mark.parametrize("name", [name for name, one in vars(_Pool).items() if callable(one)])
def test_a_pool_is_called_as_pythons_own(name: str) -> None:
    ours, theirs = (inspect.signature(getattr(pool, name)).parameters for pool in (_Pool, Pool))
    assert name.startswith("__") or [*ours] == [*theirs], "a task is often given by name: func=, iterable="


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
    answer = estimated(MODEL, trained_with(UNCOMMON[name]))

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
