"""What counts as the same cell, and when an earlier estimate of it holds no more."""

from __future__ import annotations

import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from jupyter_gpufit.devices.cards import CARDS, Context
from jupyter_gpufit.estimate.asking import before
from jupyter_gpufit.estimate.asking.ask import Ask, TraceAnswer
from jupyter_gpufit.estimate.asking.look import look
from jupyter_gpufit.graph import ship
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.surroundings import generators

SETUP = """
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
shared = torch.zeros(8)
half = shared[:4]
batch = 16
class Made:
    number = 1
made = Made()
def train():
    return model(torch.ones(batch, 4)).sum()
"""
CELL = "# %%gpufit train\nfor _ in range(3):\n    train().backward()\n    optimizer.step()"
ASK = Ask(card=next(iter(CARDS.values())).card, context=Context(0, 0, "nothing"), kind="slot")


def key(more: str = "", source: str = CELL, ask: Ask = ASK) -> str:
    """Of the cell in a notebook of its own, with another setup cell."""
    namespace: dict[str, Any] = vars(types.ModuleType("__main__"))
    exec(SETUP, namespace)
    exec(more, namespace)
    with generators.travelling(namespace) as states:
        shipment = ship(["train", "optimizer", "shared", "half", "made", states], namespace)
    return before.key_of(source, shipment.graph, ask)


def test_tensors_numbers_and_generators_are_not_asked_for() -> None:
    assert key() == key("torch.rand(3); model.weight.data.fill_(7)") != ""


def test_the_magics_line_is_not_asked_for() -> None:
    assert key() == key(source=CELL.replace("train\n", "train --name other\n", 1))


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    "more",
    [
        "batch = 32",
        "Made.number = 2",
        "def train(): return model(torch.ones(batch, 4)).sum() + 1",
        "model = torch.nn.Linear(4, 5)",
        "model.weight.requires_grad_(False)",
        "model.double()",
        "shared = shared.clone()",
        "half = shared[2:6]",
        "optimizer.param_groups[0]['momentum'] = 0.9",
    ],
)
def test_what_the_cell_is_given_is(more: str) -> None:
    assert key() != key(more)


def test_the_cell_the_device_and_the_environment_are(monkeypatch: pytest.MonkeyPatch) -> None:
    first = key()
    assert first != key(source=CELL + "\npass")
    assert first != key(ask=replace(ASK, kind="gpu"))
    monkeypatch.setenv("BATCH", "64")
    assert first != key()


def traced(source: str) -> TraceAnswer:
    return look(source, lambda: {"torch": torch}, replace(ASK, limit=60.0))


TRAINS = """
{first}
layer = torch.nn.Linear(width, 8, device="cuda")
optimizer = torch.optim.SGD(layer.parameters(), 0.1)
for _ in range(3):
    layer(torch.ones(2, width, device="cuda")).sum().backward()
    optimizer.step()
"""


@pytest.mark.slow
def test_it_holds_while_the_files_that_were_read_are_as_they_were(tmp_path: Path) -> None:
    settings, width = Settings(data=str(tmp_path / "data")), tmp_path / "width.txt"
    width.write_text("8")
    answer = traced(TRAINS.format(first=f"width = int(open({str(width)!r}).read())"))
    before.keep(settings, "a-key", answer)

    found = before.find(settings, "a-key")
    assert found is not None and found.estimate == answer.estimate
    assert before.find(settings, "another") is None

    width.write_text("16384")
    assert before.find(settings, "a-key") is None


@pytest.mark.slow
def test_a_module_beside_the_notebook_is_such_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "beside_the_notebook.py"
    module.write_text("width = 8\n")
    answer = traced(TRAINS.format(first="from beside_the_notebook import width"))
    assert answer.read is not None and str(module) in [path for path, *_ in answer.read]


@pytest.mark.slow
def test_what_another_program_said_is_not_known_the_next_time() -> None:
    answer = traced(TRAINS.format(first="import subprocess; subprocess.run(['true']); width = 8"))
    assert answer.read is None


def test_only_the_newest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(before, "MOST_KEPT", 2)
    answer = replace(TraceAnswer(estimate=_an_estimate()), read=())
    for name in "abc":
        before.keep(Settings(data=str(tmp_path)), name, answer)
    assert len(list((tmp_path / "estimated").iterdir())) == 2


def _an_estimate() -> Any:
    from jupyter_gpufit.estimate.reckoning.report import Estimate

    return Estimate(card="A100", card_total=1, reasons=("it was seen",))
