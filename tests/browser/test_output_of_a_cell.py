"""What a reader sees under a cell that has run is, character for character, what the ordinary kernel leaves there."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.libraries import need

from .conftest import Lab
from .test_widgets import output
from .training import run_cells, write_cells

NAME = "as-ever"
SHOWS = """
import sys
from time import sleep
from tqdm import tqdm
for e in range(3):
    for i in tqdm(range(10), desc=f"epoch {e}", leave=False):
        sleep(0.02)
    print("epoch", e)
for i in tqdm(range(5)):
    pass
print("a warning", file=sys.stderr, flush=True)  # or the ordinary kernel may show it below the end
print("the end")
"""
OF_A_RUN = re.compile(
    r"(?<=\[)[^\]\n]*it/s[^\]\n]*(?=\])|\d\d:\d\d|[\d.]+it/s| +$", re.MULTILINE
)  # a bar's times, and the blanks that wiped one out
HUGGING_FACE = """
import contextlib, io, torch
said = contextlib.ExitStack()
said.enter_context(contextlib.redirect_stderr(io.StringIO()))  # what the import of libraries says, each time anew
from transformers import Trainer, TrainingArguments
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(2, 2)
    def forward(self, x, labels):
        out = self.layer(x)
        return {"loss": torch.nn.functional.cross_entropy(out, labels), "logits": out}
data = [{"x": torch.ones(2) * i, "labels": torch.tensor(i % 2)} for i in range(8)]
given = dict(max_steps=6, logging_steps=2, eval_steps=3, eval_strategy="steps", per_device_train_batch_size=4, seed=1)
given |= dict(use_cpu=True, report_to=[], save_strategy="no")
trainer = Trainer(Net(), TrainingArguments("out", **given), train_dataset=data, eval_dataset=data)
said.close()
done = trainer.train()
print("the end")
"""
LIGHTNING = """
import lightning, logging, torch, warnings
warnings.simplefilter("ignore"); logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(2, 1)
    def training_step(self, batch, number):
        loss = self.layer(batch).square().mean()
        self.log("loss", loss, prog_bar=True)
        return loss
    def validation_step(self, batch, number):
        self.log("held out", self.layer(batch).mean(), prog_bar=True)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)
quiet = dict(logger=False, enable_checkpointing=False, enable_model_summary=False)
loader = torch.utils.data.DataLoader(torch.ones(8, 2), batch_size=2)
lightning.Trainer(max_epochs=2, accelerator="cpu", **quiet).fit(Net(), loader, loader)
print("the end")
"""


@pytest.mark.slow(18)
def test_bars_and_prints_are_left_as_by_the_ordinary_kernel(page: Page, lab: Lab) -> None:
    shown = shown_as_ever(page, lab, NAME, SHOWS)

    assert [text for _, text in shown if "epoch" in text] == [f"epoch {e}\n" for e in range(3)]
    assert shown[-2:] == [("stderr", "100%|██████████| 5/5 []\na warning\n"), ("stdout", "the end\n")]


def shown_as_ever(page: Page, lab: Lab, name: str, cell: str) -> list[tuple[str, str]]:
    """What the cell shows below our one line, which is what it shows without us."""
    write_cells(lab, name, cell, f"%%gpufit train --name {name} --memory 1GiB{cell}")
    page.goto(lab.address(f"/tree/{name}.ipynb"))

    run_cells(page, 0, 1, 2)
    expect(output(page, 2)).to_contain_text(f"{name}: done")
    expect(output(page, 2)).to_contain_text("the end")

    ours, *shown = seen(output(page, 2))
    assert f"{name}: done" in ours[1] and ours[1].count("\n") == 0
    assert shown == seen(output(page, 1))
    return shown


def seen(cell: Locator) -> list[tuple[str, str]]:
    """Each output below it: how it is drawn, and its text."""
    outputs: list[tuple[str | None, str]] = cell.locator(".jp-OutputArea-output").evaluate_all(DRAWN)
    return [
        ((kind or "a widget").removeprefix("application/vnd.jupyter."), OF_A_RUN.sub("", text))
        for kind, text in outputs
    ]


DRAWN = "outputs => outputs.map(one => [one.dataset.mimeType, one.innerText])"


@pytest.mark.slow(48)
@pytest.mark.parametrize(
    ("trainer", "cell"),
    [
        ("transformers", HUGGING_FACE),
        pytest.param("lightning", LIGHTNING, marks=pytest.mark.soak),  # whose bars go the same way
    ],
)
def test_a_trainers_own_bars_are_left_as_by_the_ordinary_kernel(page: Page, lab: Lab, trainer: str, cell: str) -> None:
    need(trainer)
    assert len(shown_as_ever(page, lab, f"{trainer}-as-ever", cell)) > 1
