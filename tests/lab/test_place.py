"""Placement: who fits where, and what is refused at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpufit.devices.device import Device, Process
from jupyter_gpufit.errors import BadOption, DeviceUnreadable, NeverFits, NoSuchDevice
from jupyter_gpufit.lab.place import Room, Space, Taken, harmless, measure, place, refuse_impossible, rooms
from jupyter_gpufit.testing import fake_device
from jupyter_gpufit.units import GiB
from tests.lab.values import claim, request, slots, spaces


def gpu(index: int, total: int = 80, used: int = 0, utilisation: int = 0, processes: Sequence[Process] = ()) -> Device:
    return fake_device(
        f"GPU-{index}aaaa",
        label=str(index),
        index=index,
        total=total * GiB,
        free=(total - used) * GiB,
        utilisation=utilisation,
        processes=tuple(processes),
    )


def where(needed: int | None, devices: Sequence[Device], claims: Sequence[object] = (), **more: object) -> str:
    """The labels of the chosen devices; "" when the job must wait."""
    spaces = measure(devices, claims, {})  # type: ignore[arg-type]
    placement = place(request(None if needed is None else needed * GiB, **more), rooms(spaces, claims))  # type: ignore[arg-type]
    return "" if placement is None else ",".join(device.label for device in placement.devices)


def test_a_job_goes_where_it_fits() -> None:
    assert where(30, [gpu(0, total=24), gpu(1, total=80)]) == "1"


def test_the_least_utilised_comes_first() -> None:
    assert where(10, [gpu(0, utilisation=90), gpu(1, utilisation=20), gpu(2, utilisation=60)]) == "1"


def test_a_wobble_of_the_utilisation_decides_nothing() -> None:
    assert where(10, [gpu(0, total=80, utilisation=1), gpu(1, total=24, utilisation=3)]) == "1"


def test_among_equals_the_tightest_fit_keeps_the_large_one_whole() -> None:
    assert where(10, [gpu(0, total=80), gpu(1, total=24), gpu(2, total=48)]) == "1"


def test_an_empty_device_is_less_busy_than_a_shared_one() -> None:
    devices = slots(8, 8)
    assert where(2, devices, [claim(["cpu:0"], 2 * GiB)]) == "cpu:1"


def test_two_jobs_share_a_device_by_bytes() -> None:
    devices = slots(8)
    assert where(4, devices, [claim(["cpu:0"], 4 * GiB)]) == "cpu:0"
    assert where(5, devices, [claim(["cpu:0"], 4 * GiB)]) == ""


def test_a_tenth_of_a_gpu_is_kept_in_reserve_and_nothing_of_a_slot() -> None:
    assert where(73, [gpu(0)]) == ""
    assert where(72, [gpu(0)]) == "0"
    assert where(8, slots(8)) == "cpu:0"


def test_what_the_driver_keeps_for_itself_cannot_be_had() -> None:
    device = replace(gpu(0), reserved=2 * GiB, free=78 * GiB)
    assert where(71, [device]) == ""
    assert where(70, [device]) == "0"


def test_claimed_bytes_count_although_they_are_not_used_yet() -> None:
    assert where(30, [gpu(0, used=0)], [claim(["GPU-0aaaa"], 50 * GiB)]) == ""


def test_claimed_bytes_in_use_count_once() -> None:
    device = gpu(0, used=40, processes=[Process(77, "bob", 40 * GiB)])
    mine = claim(["GPU-0aaaa"], 40 * GiB, pid=77)
    [space] = measure([device], [mine], {77: mine.id})

    assert space.foreign == 0
    assert rooms([space], [mine])["GPU-0aaaa"].free == 32 * GiB


def test_use_beyond_a_claim_is_not_given_away_again() -> None:
    device = gpu(0, used=50, processes=[Process(77, "bob", 50 * GiB)])
    mine = claim(["GPU-0aaaa"], 40 * GiB, pid=77)
    [space] = measure([device], [mine], {77: mine.id})

    assert space.foreign == 10 * GiB


def test_processes_outside_the_lab_make_a_device_smaller() -> None:
    stranger = Process(5, "eve", 30 * GiB)
    device = gpu(0, used=30, processes=[stranger])

    assert where(50, [device]) == ""
    assert where(40, [device]) == "0"
    assert measure([device], [], {})[0].strangers == (stranger,)


def test_a_whole_device_has_no_neighbours() -> None:
    devices = slots(8)
    assert where(None, devices) == "cpu:0"
    assert where(None, devices, [claim(["cpu:0"], GiB)]) == ""
    assert where(1, devices, [claim(["cpu:0"], 8 * GiB, alone=True)]) == ""
    assert where(1, devices, [claim(["cpu:0"], GiB)], exclusive=True) == ""


def test_somebodys_desktop_does_not_keep_whole_device_jobs_away() -> None:
    assert where(None, [gpu(0, used=1)]) == "0"
    assert where(None, [gpu(0, used=30)]) == ""


def test_several_devices_are_given_all_or_none() -> None:
    devices = slots(8, 8, 8)
    assert where(6, devices, [claim(["cpu:1"], 4 * GiB)], count=2) == "cpu:0,cpu:2"
    assert where(6, devices, [claim(["cpu:1", "cpu:2"], 4 * GiB)], count=2) == ""


def test_a_pin_is_kept() -> None:
    devices = slots(8, 8, 8)
    assert where(2, devices, gpu="cpu:1") == "cpu:1"
    assert where(2, devices, gpu="cpu:2, cpu:1", count=2) == "cpu:1,cpu:2"
    assert where(2, devices, gpu="gone") == ""  # somebody else's request, for a device that we do not see


def test_a_device_with_a_problem_is_not_used() -> None:
    assert where(2, [replace(gpu(0), problem="it is lost"), gpu(1)]) == "1"


@pytest.mark.parametrize(
    ("asked", "error", "sentence"),
    [
        ({"needed": 90 * GiB}, NeverFits, "90.0 GiB and the largest device here, GPU 0, offers 72.0 GiB"),
        ({"needed": GiB, "gpu": "9"}, NoSuchDevice, "no device '9'"),
        ({"needed": 30 * GiB, "count": 2}, BadOption, "only GPU 0 can serve it"),
        ({"needed": GiB, "gpu": "2"}, DeviceUnreadable, "fell off"),
    ],
)
def test_what_can_never_be_is_refused_at_once(asked: dict[str, object], error: type[Exception], sentence: str) -> None:
    devices = [gpu(0), gpu(1, total=24), replace(gpu(2), problem="fell off the bus")]

    with pytest.raises(error, match=sentence):
        refuse_impossible(request(**asked), devices)  # type: ignore[arg-type]


def test_a_busy_lab_is_no_reason_to_refuse() -> None:
    refuse_impossible(request(70 * GiB), [gpu(0, used=79)])


amounts = st.integers(1, 12)


@given(amounts, st.lists(amounts, max_size=5), st.lists(amounts, max_size=3), st.integers(0, 12), st.integers(0, 12))
def test_harmless_means_that_nobody_before_could_ever_notice(
    extra: int, taken: list[int], wanted: list[int], left: int, foreign: int
) -> None:
    [space] = spaces(slots(1))
    total = left + foreign + sum(taken)
    space = Space(replace(space.device, total=total, free=total), foreign)
    room = Room(space, tuple(Taken(part, False) for part in taken))

    def noticed() -> bool:
        return any(
            sum(jobs) <= left + sum(back) < sum(jobs) + extra
            for back in _subsets([*taken, foreign])
            for jobs in _subsets(wanted)
            if jobs
        )

    assert harmless(extra, room, wanted) is not noticed()


def _subsets(values: Sequence[int]) -> Iterator[tuple[int, ...]]:
    for size in range(len(values) + 1):
        yield from combinations(values, size)


def test_a_job_that_takes_from_one_to_four_has_as_many_as_are_free() -> None:
    devices = slots(8, 8, 8)
    taken = claim(["cpu:1"], 7 * GiB)
    assert where(2, devices, count=1, most=4) == "cpu:0,cpu:1,cpu:2"
    assert where(2, devices, [taken], count=1, most=4) == "cpu:0,cpu:2"
    assert where(2, devices, count=1, most=2) == "cpu:0,cpu:1"
    assert where(2, devices, [taken], count=3, most=4) == ""
