from __future__ import annotations

import os
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from jupyter_gpufit.cuda.slot import Budget, around
from jupyter_gpufit.errors import NotOnASlot

CUDA = torch.device("cuda", 0)


def test_autocast_gives_the_dtype_a_gpu_gives(slot: Budget) -> None:
    x = torch.ones(2, 2, device="cuda")

    for context, dtype in [
        (torch.autocast("cuda"), torch.float16),
        (torch.autocast(device_type="cuda", dtype=torch.float16), torch.float16),
        (torch.autocast(x.device.type, dtype=torch.bfloat16), torch.bfloat16),
        (torch.amp.autocast("cuda"), torch.float16),
    ]:
        with context:
            assert (x @ x).dtype == dtype
            assert torch.is_autocast_enabled() and torch.is_autocast_enabled("cuda")
            assert torch.get_autocast_dtype("cuda") == dtype
    assert not torch.is_autocast_enabled()
    assert torch.get_autocast_dtype("cuda") == torch.float16


def test_the_deprecated_autocast(slot: Budget) -> None:
    x = torch.ones(2, 2, device="cuda")
    with pytest.warns(FutureWarning, match="torch.cuda.amp.autocast"):
        context = torch.cuda.amp.autocast()
    with context:
        assert (x @ x).dtype == torch.float16
    with pytest.warns(FutureWarning, match="torch.cuda.amp.GradScaler"):
        assert torch.cuda.amp.GradScaler().scale(torch.ones(1, device="cuda")).item() == 2**16


def test_custom_forwards_see_the_autocast(slot: Budget) -> None:
    def forward(ctx: Any, x: torch.Tensor) -> torch.dtype:
        assert not torch.is_autocast_enabled("cuda")
        return x.dtype

    class Context:
        pass

    with torch.autocast("cuda"):
        cast = torch.amp.custom_fwd(forward, device_type="cuda", cast_inputs=torch.float32)
        assert cast(Context(), torch.ones(2, device="cuda", dtype=torch.float16)) == torch.float32


@pytest.mark.slow
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("device", ["cuda", None])
def test_a_training_in_mixed_precision(slot: Budget, fused: bool, device: str | None) -> None:
    scaler = torch.amp.GradScaler(device) if device else torch.amp.GradScaler()
    model = nn.Linear(4, 1).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=fused)
    x = torch.randn(16, 4, device="cuda")
    losses = []
    for _ in range(5):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = (model(x).float() - 1).square().mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())

    assert scaler.is_enabled() and losses[-1] < losses[0]


def test_an_lstm_in_float16_runs_or_says_why_not(slot: Budget) -> None:
    lstm = nn.LSTM(3, 3).cuda()
    try:
        with torch.autocast("cuda"):
            lstm(torch.ones(2, 2, 3, device="cuda"))
    except NotOnASlot as refusal:
        assert "lstm" in refusal.call and "bfloat16" in str(refusal)


def test_any_kernel_of_attention_may_be_asked_for(slot: Budget) -> None:
    q = torch.ones(1, 2, 8, 4, device="cuda")
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.EFFICIENT_ATTENTION):
        assert nn.functional.scaled_dot_product_attention(q, q, q).is_cuda


def test_programs_that_the_cell_starts_see_no_gpu(slot: Budget) -> None:
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""


def test_the_default_device(slot: Budget) -> None:
    torch.set_default_device("cuda")
    try:
        assert torch.ones(2).device == nn.Linear(2, 2).weight.device == torch.get_default_device() == CUDA
        given, kept = np.ones(2), torch.ones(2, device="cpu")
        for made in (torch.as_tensor(given), torch.asarray(given), torch.as_tensor(kept)):
            assert made.device == CUDA
        torch.as_tensor(given).zero_()
        assert given.sum() == 2 and kept.device.type == "cpu"
    finally:
        torch.set_default_device(None)
    assert torch.ones(2).device == torch.get_default_device() == torch.device("cpu")


def test_a_device_as_a_context(slot: Budget) -> None:
    with torch.device("cuda"):
        assert torch.ones(2).device == CUDA
        with torch.device("cpu"):
            assert torch.ones(2).device.type == "cpu"
    with torch.device("meta"):
        assert torch.ones(2).device.type == "meta"
    with pytest.raises(NotOnASlot, match="cuda:1"), torch.device("cuda:1"):
        pass


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiled_models_run_uncompiled_and_say_so(slot: Budget) -> None:
    model = nn.Linear(2, 2).cuda()
    x = torch.ones(2, 2, device="cuda")
    with pytest.warns(UserWarning, match="on the CPU slot cpu:0 the model runs uncompiled"):
        compiled: Any = torch.compile(model, fullgraph=True)

    assert torch.equal(compiled(x), model(x))
    assert set(compiled.state_dict()) == {"_orig_mod.weight", "_orig_mod.bias"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_a_library_compiles_as_it_is_imported_is_not_told(
    slot: Budget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "compiles_itself.py").write_text("import torch\ndouble = torch.compile(lambda x: x * 2)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.warns(UserWarning, match="runs uncompiled"):  # a module of the user's own
        import_module("compiles_itself")
    monkeypatch.delitem(sys.modules, "compiles_itself")
    monkeypatch.setattr(around, "_LIBRARIES", (str(tmp_path),))

    assert import_module("compiles_itself").double(torch.ones(1, device="cuda")).item() == 2


@pytest.mark.slow
def test_pinning_a_loaders_batches_takes_no_threads_from_others(slot: Budget) -> None:
    """Torch keeps the number that the pinning thread sets for whoever computes for the first time later."""
    numbers: list[int] = []
    data: Any = torch.arange(8)
    loader: Any = torch.utils.data.DataLoader(data, batch_size=2, num_workers=1, pin_memory=True)
    batches = iter(loader)
    next(batches)
    look = threading.Thread(target=lambda: numbers.append(torch.get_num_threads()))

    look.start()
    look.join()

    assert getattr(batches, "_pin_memory_thread", None) is not None
    assert numbers == [torch.get_num_threads()] and numbers != [1]
    for _ in batches:
        pass


def test_a_lazy_module_gets_its_weights_where_it_is(slot: Budget) -> None:
    model = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d()).cuda()
    model(torch.ones(4, 2, device="cuda"))

    assert {t.device for t in model.state_dict().values()} == {CUDA}
