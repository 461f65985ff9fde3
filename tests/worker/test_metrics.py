"""What is read of a running loop's variables."""

from __future__ import annotations

import linecache
import math
import sysconfig
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from jupyter_gpufit.fit.several.parts import Rows, mark
from jupyter_gpufit.jobs.live import Loss
from jupyter_gpufit.worker.metrics import LONGEST, MOST, Reading, SampledCurve, Sampler, is_metric
from tests.work import calls_of


def run(source: str, **given: Any) -> list[Reading]:
    """Run a cell that calls look(); what was read each time."""
    filename = "<cell of test_metrics>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    sampler, readings = Sampler(threading.get_ident()), []
    namespace = {"look": lambda: readings.append(sampler.look()), "torch": torch, "np": np, **given}
    exec(compile(source, filename, "exec"), namespace)
    return readings


def values(source: str, **given: Any) -> dict[str, float]:
    return dict(run(source, **given)[-1].values)


def test_scalars_of_every_kind() -> None:
    source = (
        "loss = torch.tensor(0.5, requires_grad=True) * 2\nacc = np.float32(0.25)\ntrain_losses = [3.0, 2.0]\n"
        "error = 7\nepoch = 3\nmodel_name = 'loss'\nlook()\n"
    )
    # Of a cell, the variables that its code names: so each is named here.
    assert values(source) == {"loss": 1.0, "acc": 0.25, "train_losses": 2.0, "error": 7.0}


@pytest.mark.slow(1)
def test_the_variables_of_a_training_function_and_its_optimizer() -> None:
    source = (
        "def train(weight):\n"
        "    optimizer = torch.optim.SGD([weight], lr=0.125)\n"
        "    running_loss = 0.0\n"
        "    for step in range(3):\n"
        "        running_loss += 0.5\n"
        "        look()\n"
        "train(torch.zeros(1, requires_grad=True))\n"
    )
    assert [dict(one.values) for one in run(source)] == [{"running_loss": 0.5 * n, "lr": 0.125} for n in (1, 2, 3)]


def test_a_global_optimizer_and_no_other_global() -> None:
    source = (
        "loss, optimizer = 9.0, torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.25)\n"
        "def train(trainer):\n    optimizer.zero_grad()\n    acc = 1.0\n    look()\n    trainer.loss\n"
        "try: train(None)\nexcept AttributeError: pass\n"
    )
    # The cell itself names both; inside the function alone, only the optimizer would be there.
    found = values(source)
    assert (found["lr"], found["acc"]) == (0.25, 1.0)


def test_a_trainers_attributes() -> None:
    source = (
        "class Trainer:\n"
        "    def fit(self):\n"
        "        self.best_loss, self.patience, self.name = 0.75, 3.0, 'x'\n"
        "        look()\n"
        "Trainer().fit()\n"
    )
    assert values(source) == {"best_loss": 0.75}


LIBRARY = f"{sysconfig.get_path('purelib')}/a_library.py"  # in whose functions loops were rewritten


def test_of_a_librarys_function_what_it_logged_and_not_its_variables() -> None:
    source = (
        "def fit(trainer, look):\n"
        "    _gf_f = None\n"
        "    self, tr_loss, _tr_loss = trainer, 13.86, 13.86\n"
        "    look()\n"
        "    self.state.log_history.append({'loss': 0.69, 'learning_rate': 0.1})\n"
        "    look()\n"
    )
    library: dict[str, Any] = {}
    exec(compile(source, LIBRARY, "exec"), library)
    trainer = SimpleNamespace(state=SimpleNamespace(log_history=[]), _total_loss=5.0)
    first, second = run("fit(trainer, look)\n", fit=library["fit"], trainer=trainer)
    assert first.values == {} and second.values == {"loss": 0.69}


def test_a_history_and_no_configuration() -> None:
    source = (
        "def train():\n"
        "    config, history, logs = {'loss': 1.0, 'lr': 0.1}, {'val_loss': []}, {}\n"
        "    for value in (2.0, 1.5):\n"
        "        history['val_loss'].append(value)\n"
        "        logs['acc'] = value / 4\n"
        "        look()\n"
        "train()\n"
    )
    assert [one.values for one in run(source)][-1] == {"val_loss": 1.5, "acc": 0.375, "value": 1.5}


def test_the_internals_of_a_trainer_of_the_users_own_are_not_shown() -> None:
    source = "class T:\n    def fit(self):\n        self._loss, self.loss = 13.86, 0.69\n        look()\nT().fit()\n"
    assert values(source) == {"loss": 0.69}


def test_the_innermost_wins() -> None:
    source = "def inner():\n    loss = 1.0\n    look()\nloss = 2.0\ninner()\nloss\n"
    assert values(source) == {"loss": 1.0}


def test_a_variable_of_an_earlier_cell_is_not_this_ones() -> None:
    assert values("look()\n", loss=3.0) == {}


def test_other_numbers_once_they_change() -> None:
    source = "momentum = 0.9\nfor temperature in (1.0, 0.5):\n    look()\n    momentum\n"
    first, second = run(source)
    assert first.values == {} and second.values == {"temperature": 0.5}


def test_at_most_so_many() -> None:
    source = "\n".join(f"loss_{n} = {n}.0" for n in range(40)) + "\nlook()\n"
    assert len(values(source)) == MOST


def test_nothing_of_the_users_is_run() -> None:
    source = (
        "class Strange:\n"
        "    def __getattr__(self, name): raise SystemError\n"
        "    def __float__(self): raise SystemError\n"
        "    def __eq__(self, other): raise SystemError\n"
        "def f(self):\n    loss = self\n    acc = 1.0\n    look()\nf(Strange())\n"
    )
    assert values(source) == {"acc": 1.0}


def test_a_part_of_a_batch_is_no_number_of_it() -> None:
    """Whoever looks at it has the other devices meet, which do not look at the same time."""
    loss = torch.ones(1)
    mark(loss, Rows(0, (1, 1)))
    source = "loss = found\nacc = 1.0\nlook()\n"
    assert values(source, found=loss) == {"acc": 1.0}


def test_what_has_no_single_value_is_passed_over() -> None:
    source = (
        "loss = torch.zeros(2)\nacc = torch.zeros((), device='meta')\nerr = torch.zeros((), dtype=torch.bool)\n"
        "mse = torch.zeros(1).to_sparse()\nlr = True\nscore = []\nlook()\n"
    )
    assert values(source) == {}


def test_of_nobody_there_is_nothing() -> None:
    assert Sampler(thread=-1).look().values == {}


def test_which_is_the_loss() -> None:
    sampler = Sampler(0)
    assert sampler.loss({"acc": 1.0}) is None
    assert sampler.loss({"val_loss": 2.0, "acc": 1.0}) == Loss(name="val_loss", value=2.0)
    assert sampler.loss({"loss": 1.0, "val_loss": 3.0}) == Loss(name="val_loss", value=3.0)  # a curve of one thing
    assert sampler.loss({"loss": math.nan}) == Loss(name="loss", value=None)


@pytest.mark.parametrize("name", ["loss", "train_loss", "lossG", "loss2", "f1", "valAcc", "LR", "grad_norm"])
def test_names_of_metrics(name: str) -> None:
    assert is_metric(name)


@pytest.mark.parametrize("name", ["glossary", "account", "epoch", "x", "model", "early"])
def test_other_names(name: str) -> None:
    assert not is_metric(name)


def test_a_curve_has_its_points_early_and_stays_small() -> None:
    curve, day = SampledCurve(began=0.0), 86_400
    due = [now for now in range(day) if curve.is_due(float(now))]
    assert due[:900] == list(range(900))
    assert len(due) < 12_000  # a few MB a day
    assert max(b - a for a, b in zip(due, due[1:], strict=False)) <= LONGEST + 1


def test_looking_is_cheap() -> None:
    sampler = Sampler(threading.get_ident())
    loss = 0.5
    assert calls_of(sampler.look) < 2000 and loss  # well under a millisecond
