from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from jupyter_gpufit.devices.device import Kind
from jupyter_gpufit.estimate.asking.for_job import Estimated, asked_for, needed_of
from jupyter_gpufit.estimate.asking.lesson import remark_on
from jupyter_gpufit.estimate.need import Needed
from jupyter_gpufit.estimate.reckoning.learned import Lesson, corrected, learn, learned_file, lessons, signature
from jupyter_gpufit.estimate.reckoning.on_slot import on_slot
from jupyter_gpufit.estimate.reckoning.report import Estimate
from jupyter_gpufit.estimate.showing.text import band
from jupyter_gpufit.jobs.job import Options
from jupyter_gpufit.quantities import parse_bytes
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.testing import fake_device
from jupyter_gpufit.units import GiB, MiB

ESTIMATE = Estimate(
    card="NVIDIA L4",
    card_total=24 * GiB,
    peak_allocated=8 * GiB,
    peak_reserved=9 * GiB,
    context=1 * GiB,
    low=9 * GiB,
    need=11 * GiB,
    high=12 * GiB,
    confidence="high",
    reasons=("a reason",),
)


def lesson(measured: int, *, card: str = "NVIDIA L4", kind: Kind = "gpu", key: str = "k" * 24) -> Lesson:
    return Lesson(key=key, time=1.0, kind=kind, card=card, job="abc", measured=measured, estimated=10 * GiB)


def test_the_key_knows_the_text_and_the_shapes() -> None:
    source = "# %%gpufit train\nfor i in range(n):\n    use(x)\n"
    key = signature(source, {"n": 3, "x": [1, 2]})

    assert signature("for i in range(n):\n    use(x)", {"n": 3, "x": [7, 8]}) == key
    assert signature(source, {"n": 4, "x": [1, 2]}) != key
    assert signature(source, {"n": 3, "x": [1, 2, 3]}) != key
    assert signature(source + "more()", {"n": 3, "x": [1, 2]}) != key


def test_the_key_ignores_what_the_cell_binds_itself() -> None:
    source = "loss = step(x)\n"

    assert signature(source, {"x": 1}) == signature(source, {"x": 1, "loss": 0.3, "_hidden": 2})


def test_keeps_and_finds_lessons(tmp_path: Path) -> None:
    settings = Settings(data=str(tmp_path / "new"))
    for size in (1, 2):
        learn(settings, lesson(size * GiB))
    learn(settings, lesson(3 * GiB, key="other"))

    assert [one.measured for one in lessons(settings, "k" * 24)] == [1 * GiB, 2 * GiB]
    assert lessons(settings, "") == []


def test_passes_over_lines_that_cannot_be_read(tmp_path: Path) -> None:
    settings = Settings(data=str(tmp_path))
    learn(settings, lesson(1 * GiB))
    with learned_file(settings).open("a") as file:
        file.write('{"format": 1, "key": "' + "k" * 24 + '"\n{"format": 99, "key": "' + "k" * 24 + '"}\n')

    assert len(lessons(settings, "k" * 24)) == 1


def test_what_the_same_card_took_replaces_the_estimate() -> None:
    found = corrected(ESTIMATE, "gpu", [lesson(7 * GiB), lesson(8 * GiB), lesson(7 * GiB)])

    assert found.measured == 8 * GiB
    assert found.need == round(8 * GiB * 1.05)
    assert found.confidence == "high"
    assert "8.0 GiB" in found.reasons[0]


def test_a_number_that_was_shown_to_be_wrong_is_not_said_again() -> None:
    found = corrected(ESTIMATE, "gpu", [lesson(2 * GiB)])

    assert band(ESTIMATE) == "10.0 GiB (9.0–12.0)"
    assert band(found) == "2.0 GiB (2.0–2.1)"


def test_another_card_corrects_by_its_factor_and_never_downwards() -> None:
    more = corrected(ESTIMATE, "gpu", [lesson(12 * GiB, card="NVIDIA A40")])
    less = corrected(ESTIMATE, "gpu", [lesson(8 * GiB, card="NVIDIA A40")])

    assert more.need == round(11 * GiB * 1.2)
    assert (less.need, less.high) == (ESTIMATE.need, ESTIMATE.high)
    assert less.low == round(9 * GiB * 0.8)


@pytest.mark.parametrize(
    "known", [[], [lesson(1 * GiB, kind="slot")], [lesson(90 * GiB, card="NVIDIA A40")]], ids=["none", "slot", "absurd"]
)
def test_nothing_fitting_learned_changes_nothing(known: list[Lesson]) -> None:
    assert corrected(ESTIMATE, "gpu", known) == ESTIMATE


def test_a_slot_is_not_bounded_by_what_was_never_traced() -> None:
    unknown = replace(ESTIMATE, how="nothing", need=None, high=None)

    found = corrected(unknown, "slot", [lesson(2 * MiB, kind="slot", card="CPU slot 1")])

    assert found.need is None and found.measured == 2 * MiB


def test_what_the_user_asked_for_needs_no_estimate() -> None:
    settings = Settings()

    assert asked_for(Options(memory=5), settings) == Needed(5, "asks for what --memory says")
    assert asked_for(Options(memory=5, exclusive=True), settings) == Needed(None, "asks for a whole device")
    assert asked_for(Options(), settings) is None
    assert asked_for(Options(), replace(settings, estimate_limit=0)) == Needed(None, "asks for a whole device")


DEVICE = fake_device(total=24 * GiB)


def needed(estimate: Estimate) -> Needed:
    return needed_of(Estimated(estimate, "gpu", "key"), [DEVICE])


def test_a_job_claims_the_upper_end_of_its_band_and_says_the_estimate() -> None:
    said = "estimate: 10.0 GiB (9.0–12.0), high confidence; claims 12.0 GiB"

    assert needed(ESTIMATE) == Needed(12 * GiB, said)


def test_a_slot_is_never_claimed_by_a_few_bytes() -> None:
    small = replace(ESTIMATE, low=1 * MiB, need=2 * MiB, high=3 * MiB)

    found = needed_of(Estimated(small, "slot", "key"), [DEVICE])
    assert found.memory == 512 * MiB and found.reason.endswith("claims 512.0 MiB, the least on a slot")
    assert needed_of(Estimated(small, "gpu", "key"), [DEVICE]).memory == 3 * MiB


@pytest.mark.parametrize(
    ("estimate", "words"),
    [
        (replace(ESTIMATE, confidence="low"), "a reason"),
        (replace(ESTIMATE, need=None, high=None), "a reason"),
        (replace(ESTIMATE, high=23 * GiB, low=20 * GiB), "tight"),
        (replace(ESTIMATE, high=50 * GiB, low=40 * GiB), "more than any device here has"),
    ],
)
def test_a_job_claims_a_whole_device_when_unsure_and_says_why(estimate: Estimate, words: str) -> None:
    assert needed(estimate).memory is None
    assert words in needed(estimate).reason


def test_a_failed_estimate_never_fails_the_job() -> None:
    found = needed_of("ValueError: torch is too new", [DEVICE])

    assert found.memory is None
    assert "torch is too new" in found.reason


def test_a_cell_that_uses_no_device_is_not_said_to_be_estimated() -> None:
    assert needed_of(None, [DEVICE]) == Needed(None, "asks for a whole device")


def test_running_out_of_an_estimated_claim_says_how_to_go_on() -> None:
    found, claim = Estimated(ESTIMATE, "gpu", "key"), Needed(12 * GiB, "estimated")
    error = torch.OutOfMemoryError("CUDA out of memory.")

    assert "--memory 24.0GiB" in remark_on(error, found, claim)
    assert parse_bytes("24.0GiB") == 24 * GiB, "what is said can be typed"
    assert remark_on(error, found, Needed(None, "a whole device")) == ""
    assert remark_on(error, None, claim) == "", "the user chose it"
    assert remark_on(ValueError(), found, claim) == ""


def test_after_it_ran_out_the_next_run_claims_a_whole_device_until_one_has_ended_well() -> None:
    ran_out = replace(lesson(12 * GiB), ran_out=True)

    next_one = corrected(ESTIMATE, "gpu", [lesson(7 * GiB), ran_out])
    assert needed(next_one).memory is None
    assert "ran out of memory with 12.0 GiB" in needed(next_one).reason
    assert needed(corrected(ESTIMATE, "gpu", [ran_out, lesson(15 * GiB)])).memory == round(15 * GiB * 1.05)


def test_a_slot_must_offer_more_than_a_gpu() -> None:
    found = on_slot(replace(ESTIMATE, host=1 * GiB))

    assert found.need is not None and found.need > 12 * GiB
    assert "slot" in found.reasons[0]
    assert found.expected == ESTIMATE.peak_allocated + ESTIMATE.context, "a slot has no allocator that takes more"
