"""Whether a training may be suspended, and which way leads back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jupyter_gpufit.devices.device import Process
from jupyter_gpufit.suspend.decide import LeftAsleep, is_elsewhere, way_back, why_not
from jupyter_gpufit.testing import fake_device
from jupyter_gpufit.units import GiB

HERE, THERE, THIRD = (fake_device(f"GPU-{index}", label=str(index), index=index) for index in range(3))
ALL = (HERE, THERE, THIRD)
LEFT = LeftAsleep(HERE, held=10 * GiB, context=GiB)
FINE = {"devices": 1, "children": 0, "trackers": 0, "free": 64 * GiB}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, ""),
        ({"devices": 2}, "it has 2 devices"),
        ({"children": 4}, "it has 4 processes of its own"),
        ({"trackers": 1}, "W&B"),
        ({"free": 11 * GiB}, "the host has 11.0 GiB of memory free, too little for its 11.0 GiB"),
        ({"free": 12 * GiB}, ""),
    ],
)
def test_who_may_be_suspended(change: dict[str, int], why: str) -> None:
    found = why_not(LEFT, **FINE | change)
    assert why in found and bool(why) == bool(found)
    assert "MIG" in why_not(replace(LEFT, device=replace(HERE, kind="mig")), **FINE)


def test_back_to_where_it_was_nothing_is_mapped() -> None:
    assert way_back(LEFT, HERE, 10 * GiB, (HERE, replace(THERE, name="another type"))).to == {}
    assert not way_back(LEFT, HERE, 10 * GiB, ALL).why_not


def test_elsewhere_every_gpu_of_the_machine_is_mapped() -> None:
    assert way_back(LEFT, THERE, 10 * GiB, ALL).to == {"GPU-0": "GPU-1", "GPU-1": "GPU-0", "GPU-2": "GPU-2"}


def test_where_the_driver_has_no_way_it_is_said() -> None:
    other = replace(THERE, name="another type")
    for device, room, devices, why in (
        (other, 80 * GiB, (HERE, other), "it was on Fake GPU, and 1 is another type"),
        (replace(THERE, kind="mig", name="Fake GPU MIG"), 80 * GiB, ALL, "Fake GPU MIG"),
        (THERE, 9 * GiB, ALL, "10.0 GiB, and 9.0 GiB were claimed"),
        (THERE, 80 * GiB, (HERE, THERE, replace(THIRD, name="another type")), "all are of one type"),
        (THERE, 80 * GiB, (HERE, THERE, replace(THIRD, kind="mig")), "(MIG)"),
        (THERE, 80 * GiB, (THERE,), "all are of one type"),  # the one it left is no longer there
    ):
        assert why in way_back(LEFT, device, room, devices).why_not


def test_a_process_goes_on_only_where_it_has_a_claim() -> None:
    def seen(*places: str) -> tuple[bool, bool]:
        devices = [replace(one, processes=(Process(7, "me", 1),) if one.uuid in places else ()) for one in ALL]
        stayed, moved = (bool(is_elsewhere(7, THERE, devices, moved=moved)) for moved in (False, True))
        return stayed, moved

    assert seen("GPU-1") == (False, False)
    assert seen("GPU-0") == seen("GPU-0", "GPU-1") == (True, True)
    assert seen() == (False, True)
