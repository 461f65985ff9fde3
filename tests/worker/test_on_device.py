from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from jupyter_gpufit.lab import Granted
from jupyter_gpufit.testing import fake_device, fake_grant
from jupyter_gpufit.units import GiB, MiB
from jupyter_gpufit.worker.memory_limits import of_torch
from jupyter_gpufit.worker.on_device import for_torch


def granted(needed: int | None, bytes: int) -> Granted:
    whole = fake_grant(fake_device())
    request = replace(whole.claim.request, needed=needed)
    return replace(whole, bytes=bytes, claim=replace(whole.claim, request=request))


def test_the_context_is_part_of_a_claim() -> None:
    assert for_torch(granted(12 * GiB, 12 * GiB), 512 * MiB) == 12 * GiB - 512 * MiB


def test_the_context_of_a_whole_device_has_its_own_room() -> None:
    assert for_torch(granted(None, 72 * GiB), 512 * MiB) == 72 * GiB


def test_a_tiny_claim_leaves_torch_something() -> None:
    assert for_torch(granted(256 * MiB, 256 * MiB), 512 * MiB) == 128 * MiB


def test_a_cells_own_limit_of_torchs_memory_holds_beside_the_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[float, int]] = []
    monkeypatch.setattr(torch.cuda.memory, "set_per_process_memory_fraction", lambda part, at: told.append((part, at)))
    with of_torch() as limits:
        limits.limit(0.5, 0)
        torch.cuda.set_per_process_memory_fraction(0.9, 0)  # more than was claimed
        torch.cuda.memory.set_per_process_memory_fraction(0.2, "cuda:0")
        limits.limit(0.7, 0)  # the claim has grown
        limits.limit(0.1, 0)
        torch.cuda.set_per_process_memory_fraction(1.0, torch.device("cuda", 1))  # nothing was claimed there yet

    assert told == [(0.5, 0), (0.5, 0), (0.2, 0), (0.2, 0), (0.1, 0), (1.0, 1)]
    assert torch.cuda.memory.set_per_process_memory_fraction is not limits.set_per_process_memory_fraction
