from __future__ import annotations

from dataclasses import replace

from jupyter_gpufit.lab import Granted
from jupyter_gpufit.testing import fake_device, fake_grant
from jupyter_gpufit.units import GiB, MiB
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
