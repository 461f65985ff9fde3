"""How many devices a cell is shared out over, and how."""

from __future__ import annotations

import pytest

from jupyter_gpufit.devices.cards import Context
from jupyter_gpufit.errors import BadOption
from jupyter_gpufit.estimate.asking.ask import Ask, TraceAnswer
from jupyter_gpufit.estimate.asking.script import wish_of
from jupyter_gpufit.estimate.asking.several import each_of
from jupyter_gpufit.estimate.reckoning.report import Estimate
from jupyter_gpufit.fit.plan import FitLimits
from jupyter_gpufit.fit.sharing import Sharing
from tests.estimate.traced import A100

TOO_MUCH = Estimate(card="A100", card_total=1, need=9, low=9, high=9)


def tried(gpus: tuple[int, int], limit: float) -> list[Sharing]:
    """The trial runs that are made where nothing fits."""
    made: list[Sharing] = []

    def answer(ask: Ask) -> tuple[TraceAnswer, bool]:
        made.append(ask.sharing)
        return TraceAnswer(estimate=TOO_MUCH), False

    each_of(Ask(card=A100, context=Context(0, 0, ""), limit=limit), gpus, 8, FitLimits(1, 1), answer)
    return made


def test_one_device_has_nobody_to_split_with_and_all_trials_have_the_time_of_one() -> None:
    assert tried((1, 2), 60.0) == [Sharing(1), Sharing(2), Sharing(2, True)]
    assert tried((1, 8), 0.0) == [Sharing(1)]


@pytest.mark.parametrize(
    "sweep, largest, gpus, said",
    [
        ("batch=8,16", None, (2, 2), "do not go with --gpus"),
        (None, "batch", (1, 2), "do not go with --gpus"),
        (None, None, (1, 12), "Ask for 8 at once: --gpus 2-9"),
    ],
)
def test_what_would_be_left_out_is_refused(
    sweep: str | None, largest: str | None, gpus: tuple[int, int], said: str
) -> None:
    with pytest.raises(BadOption, match=said):
        wish_of("", 2, sweep, largest, gpus)
    assert wish_of("", 2, None, None, (12, 12)).gpus == (12, 12)
