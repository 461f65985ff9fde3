"""What a job claims when it goes on: what it is known to need, and never less than it was promised."""

from __future__ import annotations

import pytest

from jupyter_gpufit.devices.device import Device
from jupyter_gpufit.estimate.reckoning.for_resume import SLOT_LEAST, STEPS, SoFar, larger, needed_again
from jupyter_gpufit.jobs.job import Options
from jupyter_gpufit.testing import fake_device
from jupyter_gpufit.units import GiB, MiB

GPU = fake_device("GPU-a", total=10 * GiB)
SLOT = fake_device("cpu:0", total=10 * GiB, kind="slot")


@pytest.mark.parametrize(
    ("so_far", "memory", "reason"),
    [
        (SoFar(None, 2 * GiB, STEPS), 2.2, "needs 2.2 GiB: 2.0 GiB measured so far, and a reserve"),
        (
            SoFar(None, 2 * GiB, STEPS - 1),
            None,
            "needs a whole device, as before: 2.0 GiB measured so far, which tells too little before step 100",
        ),
        (SoFar(None), None, "needs a whole device, as before: nobody can tell yet what it takes"),
        (SoFar(4 * GiB), 4, "needs 4.0 GiB: as before"),
        (SoFar(4 * GiB, 2 * GiB, STEPS), 4, "needs 4.0 GiB: as before, 2.0 GiB measured so far"),
        (SoFar(3 * GiB, 3 * GiB, 1), 3.3, "needs 3.3 GiB: 3.0 GiB measured so far, and a reserve"),
        (SoFar(3 * GiB, 3 * GiB, STEPS, outgrew=3 * GiB), None, "needs a whole device: 3.0 GiB were too little"),
        (SoFar(None, 5 * GiB, STEPS, outgrew=3 * GiB), 5.5, "needs 5.5 GiB: 5.0 GiB measured so far, and a reserve"),
        (SoFar(None, 9 * GiB, STEPS), None, "needs 9.9 GiB: 9.0 GiB measured so far, and a reserve; tight, so it"),
        (SoFar(GiB, 19 * GiB // 2, 1), None, "needs 10.0 GiB: 9.5 GiB measured so far, and a reserve; tight, so it"),
        (SoFar(GiB, 11 * GiB, 1), 12.1, "needs 12.1 GiB: 11.0 GiB measured so far"),
        (SoFar(11 * GiB), 11, "needs 11.0 GiB: as before"),  # which is refused, and not squeezed in
    ],
)
def test_what_is_known_best_is_claimed(so_far: SoFar, memory: float | None, reason: str) -> None:
    needed = needed_again(None, Options(), so_far, [GPU])
    assert needed.reason.startswith(reason)
    assert needed.memory == (None if memory is None else pytest.approx(memory * GiB))


@pytest.mark.parametrize(
    ("asked", "options", "so_far", "memory", "reason"),
    [
        (GiB, Options(memory=4 * GiB), SoFar(4 * GiB, 2 * GiB), 1, "needs 1.0 GiB: so --memory says"),
        (None, Options(memory=4 * GiB), SoFar(4 * GiB, 6 * GiB, STEPS), 4, "needs 4.0 GiB: it was started with --mem"),
        (None, Options(memory=4 * GiB), SoFar(4 * GiB, outgrew=4 * GiB), None, "needs a whole device: 4.0 GiB were"),
        (None, Options(memory=4 * GiB), SoFar(4 * GiB, 5 * GiB, 1, outgrew=4 * GiB), 5.5, "needs 5.5 GiB: 5.0 GiB mea"),
        (None, Options(memory=4 * GiB), SoFar(6 * GiB), 6, "needs 6.0 GiB: as before"),  # of an earlier resume
        (None, Options(exclusive=True), SoFar(None, GiB, STEPS), None, "needs a whole device: it was started with --e"),
    ],
)
def test_what_its_user_says_comes_first(
    asked: int | None, options: Options, so_far: SoFar, memory: float | None, reason: str
) -> None:
    needed = needed_again(asked, options, so_far, [GPU])
    assert needed.reason.startswith(reason)
    assert needed.memory == (None if memory is None else memory * GiB)


def _measured(device: Device) -> int | None:
    return needed_again(None, Options(), SoFar(None, 2 * GiB, STEPS), [device]).memory


def test_a_slot_gets_a_larger_reserve_and_devices_with_a_problem_count_for_nothing() -> None:
    assert _measured(SLOT) == 2.5 * GiB
    little = needed_again(None, Options(), SoFar(None, 57 * MiB, STEPS), [SLOT])
    assert (little.memory, little.reason) == (
        SLOT_LEAST,
        "needs 512.0 MiB, the least on a slot: 57.0 MiB measured so far",
    )
    broken = fake_device("GPU-b", total=100 * GiB, problem="it fell off the bus")
    assert needed_again(None, Options(), SoFar(None, 9 * GiB, STEPS), [GPU, broken]).memory is None


@pytest.mark.parametrize(
    ("so_far", "reason"),
    [
        (SoFar(300 * MiB, 57 * MiB, STEPS), "57.0 MiB measured so far"),  # as was claimed on a GPU
        (SoFar(300 * MiB, 320 * MiB, 1), "320.0 MiB measured so far"),
        (SoFar(300 * MiB), "300.0 MiB were claimed before"),
    ],
)
def test_on_a_slot_it_has_no_less_than_a_start_gives_there(so_far: SoFar, reason: str) -> None:
    needed = needed_again(None, Options(), so_far, [SLOT])
    assert (needed.memory, needed.reason) == (SLOT_LEAST, f"needs 512.0 MiB, the least on a slot: {reason}")
    small = fake_device("cpu:0", total=256 * MiB, kind="slot")
    assert needed_again(None, Options(), SoFar(100 * MiB), [small]).memory == 256 * MiB
    assert needed_again(None, Options(memory=300 * MiB), SoFar(300 * MiB), [SLOT]).memory == 300 * MiB  # as was said
    assert needed_again(None, Options(), SoFar(0), [SLOT]).memory == 0


def test_what_was_too_little_is_doubled_up_to_the_whole_device() -> None:
    def after(claimed: int) -> tuple[int | None, str] | None:
        needed = larger(claimed, [GPU])
        return None if needed is None else (needed.memory, needed.reason)

    assert after(2 * GiB) == (4 * GiB, "needs 4.0 GiB: 2.0 GiB were too little")
    assert after(6 * GiB) == (None, "needs a whole device: 6.0 GiB were too little")
    assert after(10 * GiB) is None
