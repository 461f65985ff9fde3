"""Trainers of libraries on two devices come to what they come to on one, with nothing changed in the cell."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernels import Kernel, environment, running_kernel
from tests.libraries import need

pytestmark = [pytest.mark.slow(10), pytest.mark.usefixtures("no_worker_outlives_its_test")]

OF_TRANSFORMERS = """
import torch, transformers
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
transformers.utils.logging.set_verbosity_error()
torch.manual_seed(0)
sizes = dict(n_embd=32, n_layer=2, n_head=2, n_positions=16, bos_token_id=0, eos_token_id=0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=50, **sizes))
rows = [dict(input_ids=one, labels=one) for one in torch.randint(0, 50, (40, 12))]
"""
TRAINER = """
args = TrainingArguments('out', max_steps=8, per_device_train_batch_size=6, logging_steps=1, report_to=[],
                         disable_tqdm=True, save_strategy='no')
trainer = Trainer(model, args, train_dataset=rows)
trainer.train()
losses = [one['loss'] for one in trainer.state.log_history if 'loss' in one]
"""
OF_LIGHTNING = """
import logging, torch, lightning
logging.getLogger('lightning.pytorch').setLevel(logging.ERROR)
torch.manual_seed(0)
class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net, self.losses = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)), []
    def training_step(self, batch, number):
        x, y = batch
        loss = (self.net(x) - y).square().mean()
        self.losses.append(loss.item())
        return loss
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 1e-2)
module, x = Net(), torch.randn(40, 8)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), 6, shuffle=True)
"""
LIGHTNING = """
fit = lightning.Trainer(max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                        enable_model_summary=False)
fit.fit(module, loader)
losses = module.losses
"""


@pytest.fixture(scope="module")
def kernel(home: Path) -> Iterator[Kernel]:
    env = environment(
        home, GPUFIT_SPARE_WORKER="1", GPUFIT_ESTIMATE_LIMIT="0", GPUFIT_DEVICES="cpu:2x4GiB", TMPDIR=str(home)
    )
    with running_kernel(env, home) as kernel:
        yield kernel


@pytest.mark.slow(24)
@pytest.mark.parametrize(
    ("library", "setup", "cell"),
    [
        pytest.param("transformers", OF_TRANSFORMERS, TRAINER, marks=pytest.mark.soak),
        ("lightning", OF_LIGHTNING, LIGHTNING),
    ],
)
def test_a_trainer_comes_to_the_same(kernel: Kernel, library: str, setup: str, cell: str) -> None:
    need(library)
    found = {}
    for gpus in (1, 2):
        kernel.check(setup)
        ran = kernel.check(f"%%gpufit train --gpus {gpus} --name {library}-{gpus}\n{cell}")
        assert ("data parallel over" in ran.shown) == (gpus == 2)
        found[gpus] = json.loads(kernel.check("print(losses)").stdout)
    assert len(found[1]) >= 8
    assert found[2] == pytest.approx(found[1], rel=1e-5)
