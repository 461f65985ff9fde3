"""Cells that train with other libraries. Figures in MiB are what earlier versions said."""

from __future__ import annotations

import pytest

from jupyter_gpufit.units import MiB
from tests.estimate.traced import peak_by_kind, traced
from tests.libraries import need

pytestmark = pytest.mark.slow

GPT2 = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel
model = GPT2LMHeadModel(GPT2Config({config})).to("cuda").train()
{more}
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(100):
    ids = torch.randint(0, 50257, (8, 512), device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled={half}):
        loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.slow(22)
@pytest.mark.parametrize(
    ("config", "more", "half", "allocated"),
    [
        ("", "", False, 8240),
        pytest.param("", "", True, 7309, marks=pytest.mark.soak),
        ("", "model.gradient_checkpointing_enable()", False, 3978),
        pytest.param('attn_implementation="eager"', "", False, 10541, marks=pytest.mark.soak),
    ],
)
def test_gpt2_small_of_transformers(config: str, more: str, half: bool, allocated: int) -> None:
    need("transformers")

    trace = traced(GPT2.format(config=config, more=more, half=half))

    assert (trace.status, trace.error) == ("completed", "")
    assert peak_by_kind(trace)["all"] / MiB == pytest.approx(allocated, rel=0.005)
    assert trace.samples_per_step == 8


@pytest.mark.slow(18)
def test_trainer() -> None:
    need("transformers", "accelerate")

    trace = traced(
        """
        import torch
        from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
        model = BertForSequenceClassification(BertConfig(num_hidden_layers=2))
        data = [{"input_ids": torch.randint(0, 30000, (64,)), "labels": i % 2} for i in range(64)]
        args = TrainingArguments(output_dir="out", per_device_train_batch_size=8, report_to=[])
        Trainer(model=model, args=args, train_dataset=data, eval_dataset=data).train()
        """
    )

    assert (trace.status, trace.error, trace.steps) == ("stopped", "", 2)
    most = peak_by_kind(trace)
    assert 2 * most["parameter"] <= most["optimizer state"] < 2 * most["parameter"] + 1000
    assert trace.samples_per_step == 8


@pytest.mark.slow(18)
def test_lightning() -> None:
    need("lightning")

    trace = traced(
        """
        import torch, lightning
        from torch.utils.data import DataLoader, TensorDataset
        class Lit(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.net = torch.nn.Linear(64, 64, bias=False)
            def training_step(self, batch, i):
                return self.net(batch[0]).pow(2).mean()
            def configure_optimizers(self):
                return torch.optim.Adam(self.parameters())
        data = DataLoader(TensorDataset(torch.randn(64, 64)), batch_size=8)
        lightning.Trainer(max_epochs=3, accelerator="gpu", devices=1, logger=False).fit(Lit(), data)
        """
    )

    assert (trace.status, trace.error, trace.steps) == ("stopped", "", 2)
    assert peak_by_kind(trace)["parameter"] == 4 * 64 * 64


@pytest.mark.slow(18)
def test_lora() -> None:
    need("transformers", "peft")

    trace = traced(
        """
        import torch
        from transformers import GPT2Config, GPT2LMHeadModel
        from peft import LoraConfig, get_peft_model
        model = get_peft_model(GPT2LMHeadModel(GPT2Config()), LoraConfig(r=8, target_modules=["c_attn"])).to("cuda")
        trained = [p for p in model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(trained)
        for step in range(100):
            ids = torch.randint(0, 50257, (2, 128), device="cuda")
            model(input_ids=ids, labels=ids).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        """
    )

    assert (trace.status, trace.error, trace.steps) == ("completed", "", 2)
    assert peak_by_kind(trace)["gradient"] == 12 * 8 * (768 + 3 * 768) * 4


def test_eight_bit_adam() -> None:
    need("bitsandbytes")

    trace = traced(
        """
        import torch, bitsandbytes
        model = torch.nn.Linear(1024, 1024, bias=False).to("cuda")
        optimizer = bitsandbytes.optim.Adam8bit(model.parameters())
        for step in range(100):
            model(torch.randn(8, 1024, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        """
    )

    assert (trace.status, trace.error, trace.steps) == ("completed", "", 2)
    assert 2 * 1024**2 <= peak_by_kind(trace)["optimizer state"] < 2.1 * 1024**2


def test_a_loader_that_makes_its_workers_by_their_class() -> None:
    """As fastai does."""
    trace = traced(
        """
        import torch
        from torch.utils.data import DataLoader, TensorDataset
        from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter
        loader = DataLoader(TensorDataset(torch.randn(32, 4)), batch_size=8, num_workers=2)
        model = torch.nn.Linear(4, 1).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for (x,) in _MultiProcessingDataLoaderIter(loader):
            model(x.cuda()).sum().backward()
            optimizer.step()
        """
    )

    assert (trace.status, trace.error, trace.steps, trace.samples_per_step) == ("completed", "", 2, 8)


def test_tensors_of_a_class_of_their_own() -> None:
    """As fastai's and torchvision's: much is chosen by the class, and a result has the attributes of its origin."""
    trace = traced(
        """
        import torch
        class Picture(torch.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                made = super().__torch_function__(func, (torch.Tensor,), args, kwargs or {})
                if isinstance(made, Picture):
                    made.__dict__ = dict(args[0].__dict__)
                return made
        model = torch.nn.Conv2d(3, 4, 3).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(2):
            x = torch.zeros(4, 3, 8, 8, dtype=torch.uint8).as_subclass(Picture)
            x.size_of = 8
            x = x.to("cuda", non_blocking=True)
            assert type(x).__name__ == "Picture" and isinstance(x, Picture) and x.size_of == 8
            x = x.float().div_(255.0)
            assert isinstance(x, Picture) and x.size_of == 8 and x.is_cuda
            assert not isinstance(x.as_subclass(torch.Tensor), Picture)
            model(x).mean().backward()
            optimizer.step()
        """
    )

    assert (trace.status, trace.error, trace.steps) == ("completed", "", 2)
    assert peak_by_kind(trace)["parameter"] == 4 * (4 * 27 + 4)
