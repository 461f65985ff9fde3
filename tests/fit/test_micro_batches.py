"""A batch that a model computes in parts comes to the same but for rounding, and whoever must not be cut is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from jupyter_gpufit.fit.plan import Facts, ModelPart
from jupyter_gpufit.fit.rungs import micro_batches, recompute
from jupyter_gpufit.fit.rungs.micro_batches import BatchCut
from jupyter_gpufit.fit.units import looks_of

from .models import GPT, Pictures, batch, loss_of


def step(model: nn.Module, parts: int = 0) -> dict[str, torch.Tensor]:
    """The gradients and what else one step leaves; 0: as it is."""
    torch.manual_seed(1)
    words = batch()
    with micro_batches.around(BatchCut(models=[looks_of(model)] if parts else [], parts=parts)):
        loss_of(model(words), words).backward()
    return {**model.state_dict(), **{name: p.grad for name, p in model.named_parameters() if p.grad is not None}}


@pytest.mark.parametrize("parts", [2, 3, 4])
def test_gradients_are_those_of_the_whole_batch_but_for_rounding(parts: int) -> None:
    torch.manual_seed(0)
    model = GPT()
    other = GPT()
    other.load_state_dict(model.state_dict())

    whole, cut = step(model), step(other, parts)

    assert whole.keys() == cut.keys()
    torch.testing.assert_close(cut, whole, rtol=1e-4, atol=1e-6)


def test_it_goes_over_recomputing() -> None:
    torch.manual_seed(0)
    model, other = GPT(), GPT()
    other.load_state_dict(model.state_dict())

    with recompute.around({looks_of(model): ["blocks.0", "blocks.1"]}):
        both = step(other, 2)

    torch.testing.assert_close(both, step(model), rtol=1e-4, atol=1e-6)


def test_less_is_kept() -> None:
    def kept(parts: int) -> int:
        model, found = GPT(), 0

        def pack(t: torch.Tensor) -> torch.Tensor:
            nonlocal found
            found += t.nbytes
            return t

        with (
            micro_batches.around(BatchCut(models=[looks_of(model)] if parts else [], parts=parts)),
            torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t),
        ):
            model(batch())
        return found

    assert kept(2) < kept(0) / 10


def test_batchnorm_counts_each_part_once() -> None:
    left = step(Pictures(), 2)

    assert left["blocks.0.b1.num_batches_tracked"] == 2


class Says(nn.Module):
    """Returns what it is told to."""

    def __init__(self, what: Any) -> None:
        super().__init__()
        self.mix, self.what = nn.Linear(3, 3), what

    def forward(self, x: torch.Tensor, scale: torch.Tensor | None = None) -> Any:
        return self.what(self.mix(x) if scale is None else self.mix(x) * scale)


def in_parts(model: nn.Module, *given: Any, parts: int = 2) -> Any:
    with micro_batches.around(BatchCut(models=[looks_of(model)], parts=parts)):
        return model(*given)


def test_what_a_model_is_given_and_returns_is_cut_and_put_together() -> None:
    x, scale = torch.ones(5, 3), torch.arange(5.0)[:, None]

    out = in_parts(Says(lambda y: {"out": (y, y.sum(1)), "none": None, "n": 3}), x, scale, parts=3)

    assert out["out"][0].shape == (5, 3) and out["out"][1].shape == (5,)
    assert out["none"] is None and out["n"] == 3
    assert not out["out"][0][0].any() and out["out"][0][4].any(), "each sample has its own scale"
    assert in_parts(Says(lambda y: y), x[:1]).shape == (1, 3)
    with torch.no_grad():
        assert in_parts(Says(lambda y: y.mean()), x).shape == (), "only where it trains"


def test_a_model_that_returns_no_value_for_each_sample_is_refused() -> None:
    with pytest.raises(RuntimeError, match="a loss, say"):
        in_parts(Says(lambda y: y.mean()), torch.ones(4, 3))


def part(path: str, **more: Any) -> ModelPart:
    return ModelPart(name=f"model.{path}" if path else "model", model="m", path=path, order=0, kept=1, **more)


def test_its_notches_and_why_there_are_none() -> None:
    model = part("", batch=9)

    assert [notch.part["parts"] for notch in micro_batches.notches(Facts((model,)))] == [2, 4, 8]
    with_norm = micro_batches.notches(Facts((model, part("norm", by_batch=True))))
    assert with_norm[0].words == "computing each batch in 2 parts, of which BatchNorm sees one at a time"
    counts = Facts((model, part("one", why_not="its forward changes self.count")))
    assert micro_batches.notches(counts) == []
    assert micro_batches.why_not(counts) == "model.one cannot run twice: its forward changes self.count"
    assert micro_batches.notches(Facts((part("", batch=1),))) == []
    assert "no model" in micro_batches.why_not(Facts())
