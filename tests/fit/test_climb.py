"""A cell's ladder from its trial runs: what is tried, told and chosen."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from jupyter_gpufit.devices.cards import Context
from jupyter_gpufit.devices.speeds import DeviceSpeed
from jupyter_gpufit.estimate.asking.ask import Ask, TraceAnswer
from jupyter_gpufit.estimate.asking.climb import RAN_OUT
from jupyter_gpufit.estimate.asking.fit import Fit, fit_of
from jupyter_gpufit.estimate.asking.look import look
from jupyter_gpufit.estimate.showing.text import ladder
from jupyter_gpufit.fit.ladder import RUNGS, allowed
from jupyter_gpufit.fit.plan import AS_IT_IS, Climbed, FitLimits
from jupyter_gpufit.settings import FITS
from jupyter_gpufit.units import MiB
from tests.estimate.traced import A100

pytestmark = pytest.mark.slow

# As it is 5 blocks keep 32 MiB each, of which they hand on 4.
CELL = """
import torch
from torch import nn
class Block(nn.Module):
    def forward(self, x):
        for _ in range(8):
            x = x.tanh()
        return x
model = nn.Sequential(nn.Linear(64, 64), *(Block() for _ in range(5))).cuda()
opt = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    loss = model(torch.randn(16384, 64, device="cuda")).square().mean()
    opt.zero_grad(); loss.backward(); opt.step()
"""
SLOW = DeviceSpeed(flops=10e12, memory=500e9, link=1e6)  # nothing goes to the host for the sake of time
ASK = Ask(card=A100, context=Context(0, 0, ""), limits=FitLimits(130 * MiB, 130 * MiB), limit=300, speed=SLOW)


def asked(ask: Ask) -> TraceAnswer:
    return TraceAnswer.decode(look(CELL, dict, Ask.decode(ask.encode())).encode())


@pytest.mark.slow(12)
def test_the_fewest_blocks_that_fit_are_recomputed_and_all_of_it_is_told() -> None:
    answer = asked(ASK)

    assert answer.climbed is not None and answer.climbed.plan is not None and answer.planned is not None
    plan, plain = answer.climbed.plan, answer.estimate
    assert plan.words == "recomputing 3 of 5 blocks" and plan.exact
    assert plain.low > 130 * MiB >= (answer.planned.need or 0)
    assert "trains there by recomputing 3 of 5 blocks" in fit_of(answer).why
    assert "to the bit" in fit_of(answer).why
    assert Fit.from_record(fit_of(answer).to_record()) == fit_of(answer)
    recomputed = ["recomputing 4 of 5 blocks", "recomputing 5 of 5 blocks"]
    assert [lower.words for lower in answer.lower][:2] == recomputed
    assert answer.lower[-1].words.startswith("recomputing 5 of 5 blocks and spilling to the host all but")
    assert "- as it is: " in ladder(answer.climbed) and "exact: fits" in ladder(answer.climbed)
    assert " ms a step (" in ladder(answer.climbed)


@pytest.mark.slow(10)
def test_where_recomputing_is_not_enough_the_batch_is_cut_for_those_who_allow_it() -> None:
    found = asked(replace(ASK, limits=FitLimits(70 * MiB, 70 * MiB), fit="any")).climbed

    assert found is not None and found.plan is not None and not found.plan.exact
    assert found.plan.words == "recomputing 5 of 5 blocks and computing each batch in 2 parts"
    assert "micro-batches" in {step.name for step in found.steps if step.fits}


RAN = (AS_IT_IS, "recomputing 5 of 5 blocks")


def test_what_ran_out_before_is_not_tried_again() -> None:
    answer = asked(replace(ASK, limits=FitLimits(10**9, 10**9), fit="recompute", ran_out=RAN))

    assert answer.climbed is not None
    assert [step.why for step in answer.climbed.steps if step.name in ("", "recompute")] == [RAN_OUT, RAN_OUT]
    assert fit_of(answer).why.startswith(RAN_OUT)


@pytest.mark.slow(13)
def test_where_no_plan_fits_what_needs_least_is_left_for_one_that_runs_out_and_begins_its_next_run() -> None:
    small = replace(ASK, limits=FitLimits(40 * MiB, 40 * MiB), fit="recompute")
    first, again = fit_of(asked(small)), fit_of(asked(replace(small, ran_out=(AS_IT_IS,))))

    assert not first.plan.parts and [plan.words for plan in first.lower] == ["recomputing 5 of 5 blocks"]
    assert "recomputing 5 of 5 blocks: needs" in first.why
    assert again.plan == first.lower[0] and again.lower == ()
    assert again.why.endswith("tries recomputing 5 of 5 blocks, which needs least")


def test_what_a_run_took_by_a_plan_is_known_better_than_any_trial_run_does() -> None:
    small = replace(ASK, limits=FitLimits(40 * MiB, 40 * MiB), fit="recompute", ran_out=(AS_IT_IS,))
    answer = asked(replace(small, took={"recomputing 5 of 5 blocks": 39 * MiB}))

    assert answer.climbed is not None and answer.climbed.plan is not None
    assert answer.climbed.plan.words == "recomputing 5 of 5 blocks"


def test_nothing_is_tried_for_a_cell_that_fits_or_where_no_plan_is_wanted() -> None:
    fits, unwanted = asked(replace(ASK, limits=FitLimits(10**9, 10**9))), asked(replace(ASK, limits=None))

    assert fits.climbed is None and any(plan.words.endswith("recomputing 5 of 5 blocks") for plan in fits.lower)
    assert unwanted.climbed is None and unwanted.lower == ()


# 24 MiB of weights, and with gradients and states 96; its batch is next to nothing.
LARGE = """
import torch
from torch import nn
model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(6))).cuda()
opt = torch.optim.AdamW(model.parameters(), 0.1)
for _ in range(3):
    loss = model(torch.randn(8, 1024, device="cuda")).square().mean()
    opt.zero_grad(); loss.backward(); opt.step()
"""


@pytest.mark.slow(21)
def test_a_model_that_is_larger_than_the_device_has_its_states_on_the_host_or_is_spilled() -> None:
    def climbs(mib: int) -> Climbed:
        answer = look(LARGE, dict, replace(ASK, limits=FitLimits(mib * MiB, mib * MiB)))
        assert answer.climbed is not None
        return answer.climbed

    states, spilled, too_large = climbs(125), climbs(60), climbs(20)

    assert states.plan is not None and "of the optimizer's 48.0 MiB on the host" in states.plan.words
    assert states.plan.host == states.plan.parts["optimizer on the host"]["host"] >= 12 * MiB
    assert states.plan.moves >= 2 * 12 * MiB, "there and back"
    assert spilled.plan is not None and "spilling to the host all but" in spilled.plan.words
    assert spilled.plan.exact and spilled.plan.host >= 64 * MiB
    assert "a step to the host and back" in ladder(spilled) and "of the host's memory, exact: fits" in ladder(spilled)
    assert too_large.plan is None
    assert re.search(
        r"\nA device that gives \d\d\.\d MiB would do, by .*spilling to the host all but .*\.$", ladder(too_large)
    )
    assert re.search(r"needs 4\d.\d MiB for \w+, and the largest device has 20.0 MiB", too_large.steps[-1].why), (
        too_large
    )


@pytest.mark.soak
def test_one_rung_alone_is_tried_where_it_is_named() -> None:
    def climbs(fit: str) -> Climbed:
        answer = look(CELL, dict, replace(ASK, fit=fit))
        assert answer.climbed is not None
        return answer.climbed

    assert [step.name for step in climbs("spill").steps] == ["", "spill"]
    assert [step.fits for step in climbs("optimizer").steps] == [False, False], "it is not enough, and nothing else is"
    assert [rung.NAME for rung in allowed("micro-batches")] == ["micro-batches"]
    assert {rung.NAME.split()[0] for rung in RUNGS} == {*FITS} - {"exact", "any", "no"}


@pytest.mark.soak  # test_host_in_worker.py has it of a real host in every run
def test_what_the_host_has_no_room_for_is_refused() -> None:
    found = look(LARGE, dict, replace(ASK, limits=FitLimits(60 * MiB, 60 * MiB, host=5 * MiB))).climbed

    assert found is not None and found.plan is None
    assert "of the host's memory, which has 5.0 MiB to spare" in found.steps[-1].why


# Each size is a little larger than the one before, so that torch's fixed segments are of no use to the next.
GROWS = """
import torch
model = torch.nn.Linear(64, 64).cuda()
opt = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    for size in range(21, 40, 2):
        x = torch.zeros(size << 18, device="cuda")
        del x
    model(torch.randn(8, 64, device="cuda")).sum().backward(); opt.step(); opt.zero_grad()
"""


@pytest.mark.slow(9)
def test_memory_that_grows_in_one_piece_where_segments_of_fixed_sizes_lie_idle() -> None:
    plain = look(GROWS, dict, ASK).estimate
    between = (plain.low + (plain.need or 0)) // 2
    assert plain.peak_reserved > 1.3 * plain.peak_allocated

    def climbs(source: str) -> Climbed:
        found = look(source, dict, replace(ASK, limits=FitLimits(between, plain.low - 1), fit="allocator")).climbed
        assert found is not None
        return found

    under = climbs(GROWS)
    assert under.steps[1].need is not None and under.steps[1].need < (plain.need or 0)
    shared = climbs(GROWS + "\nimport torch.multiprocessing")
    assert shared.steps[1].why == "the cell shares its tensors with other processes"


@pytest.mark.slow(10)
def test_a_small_last_batch_does_not_hide_what_blocks_hand_on() -> None:
    """Else each of their operations looked like a block of its own that keeps much and hands on little."""
    batches = 'for rows in (16384, 64, 16384):\n    loss = model(torch.randn(rows, 64, device="cuda"))'
    inner = "class Inner(nn.Module):\n    def forward(self, x):\n        return x.tanh()\nclass Block(nn.Module):"
    cell = CELL.replace('for _ in range(3):\n    loss = model(torch.randn(16384, 64, device="cuda"))', batches)
    cell = cell.replace(
        "class Block(nn.Module):",
        inner + "\n    def __init__(self):\n        super().__init__()\n"
        "        self.parts = nn.Sequential(*(Inner() for _ in range(8)))",
        1,
    )
    cell = cell.replace(
        "        for _ in range(8):\n            x = x.tanh()\n        return x\nmodel",
        "        return self.parts(x)\nmodel",
    )
    assert "64, 16384" in cell and "self.parts(x)" in cell

    answer = look(cell, dict, ASK)

    assert answer.climbed is not None and answer.climbed.plan is not None
    assert re.fullmatch(r"recomputing \d of 5 blocks", answer.climbed.plan.words), ladder(answer.climbed)


@pytest.mark.slow(9)
@pytest.mark.parametrize("rung", ["recompute", "spill"])
def test_all_that_one_rung_can_do_is_told_whether_it_is_needed_or_not(rung: str) -> None:
    ask = replace(ASK, limits=FitLimits(500 * MiB, 500 * MiB), fit=rung, most=True)

    answer = asked(ask)

    assert answer.climbed is not None and answer.estimate.need is not None
    [step] = answer.climbed.steps
    assert step.fits and step.need is not None and step.need < 0.7 * answer.estimate.need and step.slower >= 1
    assert step.words.startswith("recomputing 5 of 5" if rung == "recompute" else "spilling")
    [too_little] = asked(replace(ask, limits=FitLimits(MiB, MiB))).climbed.steps  # type: ignore[union-attr]
    assert (
        not too_little.fits
        and too_little.why.startswith("needs ")
        and "the largest device has 1.0 MiB" in too_little.why
    )


def test_a_rung_that_can_do_nothing_says_why() -> None:
    [step] = asked(replace(ASK, fit="optimizer", most=True)).climbed.steps  # type: ignore[union-attr]

    assert step.need is None and step.why and not step.fits
