"""A second claim in the place of one that is held: on some of its devices, or on these and more."""

from __future__ import annotations

import os
from collections.abc import Sequence

import anyio
import pytest

from jupyter_gpufit.devices.device import Device, Process
from jupyter_gpufit.lab import Held, Lab, claim, claim_now
from jupyter_gpufit.lab.fewer import some_of
from jupyter_gpufit.lab.ledger import LedgerReader
from jupyter_gpufit.testing import fake_device
from jupyter_gpufit.units import GiB
from tests.lab.values import request, slots

FOUR = slots(4, 4, 4, 4)


async def look() -> Sequence[Device]:
    return FOUR


def held(lab: Lab) -> list[tuple[str, ...]]:
    return sorted(claim.hold.devices for claim in LedgerReader(lab.path).read().claims)


@pytest.mark.anyio
async def test_who_holds_fewer_has_both_claims_until_the_first_is_given_back(lab: Lab) -> None:
    async with claim(lab, request(None, count=1, most=4), look) as granted:
        fewer = some_of(granted, ["cpu:0", "cpu:1"])
        assert held(lab) == [("cpu:0", "cpu:1"), ("cpu:0", "cpu:1", "cpu:2", "cpu:3")]
        assert (fewer.granted.alone, fewer.granted.bytes, fewer.granted.claim.request.most) == (True, 4 * GiB, 4)
        assert fewer.granted.claim.began == granted.claim.began
    assert held(lab) == [("cpu:0", "cpu:1")]
    async with claim(lab, request(None, count=2), look) as other:
        assert [device.label for device in other.devices] == ["cpu:2", "cpu:3"]
    fewer.give_back()
    assert held(lab) == []


@pytest.mark.anyio
async def test_a_turn_goes_on_with_more_devices_and_begins_anew_elsewhere(lab: Lab) -> None:
    async with claim(lab, request(None, gpu="cpu:0"), look) as granted:
        for devices, goes_on in (("cpu:0,cpu:1", True), ("cpu:1,cpu:2", False)):
            more = await claim_now(lab, request(None, gpu=devices, count=2, most=2), look, granted)
            assert isinstance(more, Held) and (more.granted.claim.began == granted.claim.began) == goes_on
            more.give_back()


@pytest.mark.anyio
async def test_its_own_memory_is_in_nobodys_way_where_it_stays_on_a_gpu(lab: Lab) -> None:
    used = 0

    async def gpus() -> Sequence[Device]:
        own = Process(pid=os.getpid(), user="ada", bytes=used)
        first = fake_device("GPU-a", total=20 * GiB, free=20 * GiB - used, processes=(own,))
        return [first, fake_device("GPU-b", label="1", index=1, total=20 * GiB)]

    async with claim(lab, request(12 * GiB, gpu="GPU-a"), gpus) as granted:
        used = 12 * GiB
        with anyio.fail_after(2):
            more = await claim_now(lab, request(12 * GiB, count=2, most=2), gpus, granted)
        assert isinstance(more, Held) and len(more.granted.devices) == 2
        more.give_back()
