"""How torch's allocator is told of a plan, in each version of torch."""

from __future__ import annotations

import pytest
import torch

from jupyter_gpufit.fit.rungs.allocator import NAME, OPTION, AllocatorConf, _tell_torch, environment


def test_the_environment_has_it_under_the_old_name_and_the_new_one() -> None:
    env = {"HOME": "/", "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"}

    assert environment({}, env) == env
    assert environment({NAME: AllocatorConf(conf=OPTION)}, env) == {
        "HOME": "/",
        "PYTORCH_ALLOC_CONF": OPTION,
        "PYTORCH_CUDA_ALLOC_CONF": OPTION,
    }


@pytest.mark.parametrize("is_old", [False, True])
def test_torch_is_told_by_the_function_that_it_has(is_old: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 2.9 it had none for all accelerators."""
    told: list[tuple[bool, str]] = []
    if is_old:
        monkeypatch.delattr(torch._C, "_accelerator_setAllocatorSettings", raising=False)
    else:
        monkeypatch.setattr(
            torch._C, "_accelerator_setAllocatorSettings", lambda conf: told.append((False, conf)), raising=False
        )
    monkeypatch.setattr(torch.cuda.memory, "_set_allocator_settings", lambda conf: told.append((True, conf)))

    _tell_torch(OPTION)

    assert told == [(is_old, OPTION)]
