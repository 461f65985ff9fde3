"""A cell's ladder from its trial runs: what is tried, told and chosen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jupyter_gpufit.devices.cards import Context
from jupyter_gpufit.estimate.asking.ask import Ask, TraceAnswer
from jupyter_gpufit.estimate.asking.climb import RAN_OUT
from jupyter_gpufit.estimate.asking.fit import Fit, fit_of
from jupyter_gpufit.estimate.asking.look import look
from jupyter_gpufit.estimate.showing.text import ladder
from jupyter_gpufit.fit.plan import AS_IT_IS, FitLimits
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
ASK = Ask(card=A100, context=Context(0, 0, ""), limits=FitLimits(130 * MiB, 130 * MiB), limit=300)


def asked(ask: Ask) -> TraceAnswer:
    return TraceAnswer.decode(look(CELL, dict, Ask.decode(ask.encode())).encode())


def test_the_fewest_blocks_that_fit_are_recomputed_and_all_of_it_is_told() -> None:
    answer = asked(ASK)

    assert answer.climbed is not None and answer.climbed.plan is not None and answer.planned is not None
    plan, plain = answer.climbed.plan, answer.estimate
    assert plan.words == "recomputing 3 of 5 blocks" and plan.exact
    assert plain.low > 130 * MiB >= (answer.planned.need or 0)
    assert "trains there by recomputing 3 of 5 blocks" in fit_of(answer).why
    assert "to the bit" in fit_of(answer).why
    assert Fit.from_record(fit_of(answer).to_record()) == fit_of(answer)
    assert [lower.words for lower in answer.lower] == ["recomputing 4 of 5 blocks", "recomputing 5 of 5 blocks"]
    assert "- as it is: " in ladder(answer.climbed) and ladder(answer.climbed).endswith("exact: fits")


def test_where_recomputing_is_not_enough_the_batch_is_cut_for_those_who_allow_it() -> None:
    found = asked(replace(ASK, limits=FitLimits(70 * MiB, 70 * MiB), fit="any")).climbed

    assert found is not None and found.plan is not None and not found.plan.exact
    assert found.plan.words == "recomputing 5 of 5 blocks and computing each batch in 2 parts"
    assert [step.fits for step in found.steps] == [False, False, True]


def test_what_ran_out_before_is_not_tried_again() -> None:
    answer = asked(replace(ASK, limits=FitLimits(10**9, 10**9), ran_out=(AS_IT_IS, "recomputing 5 of 5 blocks")))

    assert answer.climbed is not None and answer.climbed.plan is None
    assert [step.why for step in answer.climbed.steps] == [RAN_OUT, RAN_OUT]
    assert fit_of(answer).why.startswith(RAN_OUT)


def test_nothing_is_tried_for_a_cell_that_fits_or_where_no_plan_is_wanted() -> None:
    fits, unwanted = asked(replace(ASK, limits=FitLimits(10**9, 10**9))), asked(replace(ASK, limits=None))

    assert fits.climbed is None and [plan.words for plan in fits.lower][-1] == "recomputing 5 of 5 blocks"
    assert unwanted.climbed is None and unwanted.lower == ()
