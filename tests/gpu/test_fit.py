"""A cell under each rung of the fit ladder on a GPU: the plain bits, within what was foreseen and no more."""

from __future__ import annotations

import pytest

from jupyter_gpufit.devices.card import Card
from jupyter_gpufit.units import MiB
from tests.gpu.plans import MODELS, foreseen, measured

WORST = 0.06  # by which more may be taken than was foreseen
SPARE = 64 * MiB  # that torch's allocator has beside tensors


@pytest.fixture
def card() -> Card:
    from jupyter_gpufit.devices.here import read_devices
    from jupyter_gpufit.estimate.asking.target import largest_of, target_of
    from jupyter_gpufit.settings import Settings

    return target_of(Settings(), largest_of(read_devices(Settings()))).card


@pytest.mark.parametrize("model", MODELS)
def test_each_rung_comes_to_the_plain_bits_and_takes_what_was_foreseen(model: str, card: Card) -> None:
    plain = measured(model, next(foreseen(model, card))[0])
    for plan, peak, _ in foreseen(model, card):
        ran = measured(model, plan)

        assert ran["allocated"] <= peak * (1 + WORST), f"{plan.words}: foreseen {peak:,}, took {ran}"
        if "micro-batches" not in plan.parts:
            assert ran["bits"] == plain["bits"], plan.words
        assert bool(ran["host"]) == bool({"spill", "optimizer on the host"} & {*plan.parts}), (plan.words, ran)


def test_batches_of_any_length_run_in_no_more_than_the_plan_needs(card: Card) -> None:
    for plan, peak, _ in foreseen("Words", card):
        ran = measured("Words", plan, cap=round(1.05 * peak) + SPARE, steps=200, vary=True)

        assert ran["allocated"] <= 1.05 * peak, f"{plan.words}: foreseen {peak:,}, took {ran}"
