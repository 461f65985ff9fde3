"""How many devices a cell is shared out over, and how."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from jupyter_gpufit.devices.cards import Context
from jupyter_gpufit.devices.speeds import TYPICAL, among, keep_exchange, keep_speed, kept_speed, knows_exchange
from jupyter_gpufit.errors import BadOption
from jupyter_gpufit.estimate.asking import several
from jupyter_gpufit.estimate.asking.ask import Ask, TraceAnswer
from jupyter_gpufit.estimate.asking.script import wish_of
from jupyter_gpufit.estimate.asking.several import each_of
from jupyter_gpufit.estimate.reckoning.report import Estimate
from jupyter_gpufit.fit.plan import FitLimits
from jupyter_gpufit.fit.sharing import Sharing
from jupyter_gpufit.settings import Settings
from tests.estimate.traced import A100

SETTINGS = Settings(data="/nowhere")
TOO_MUCH = Estimate(card="A100", card_total=1, need=9, low=9, high=9)


def tried(gpus: tuple[int, int], limit: float) -> list[Sharing]:
    """The trial runs that are made where nothing fits."""
    made: list[Sharing] = []

    def answer(ask: Ask) -> tuple[TraceAnswer, bool]:
        made.append(ask.sharing)
        return TraceAnswer(estimate=TOO_MUCH), False

    each_of(Ask(card=A100, context=Context(0, 0, ""), limit=limit), gpus, 8, FitLimits(1, 1), SETTINGS, answer)
    return made


def test_one_device_has_nobody_to_split_with_and_all_trials_have_the_time_of_one() -> None:
    assert tried((1, 2), 60.0) == [Sharing(1), Sharing(2), Sharing(2, 1), Sharing(2, 2), Sharing(2, 3)]
    assert tried((1, 8), 0.0) == [Sharing(1)]


@pytest.mark.parametrize("fit, best", [("any", 4), ("exact", 0)])
def test_with_fit_any_it_is_the_number_that_is_predicted_to_end_first(fit: str, best: int) -> None:
    seconds = {1: 1.0, 2: 0.6, 3: 0.5, 4: 0.4, 5: 0.39}

    def answer(ask: Ask) -> tuple[TraceAnswer, bool]:
        estimate = replace(TOO_MUCH, need=1, low=1, high=1, seconds_per_step=seconds[ask.sharing.devices])
        return TraceAnswer(estimate=estimate), False

    asked = Ask(card=A100, context=Context(0, 0, ""))
    found = each_of(asked, (1, 5), 8, FitLimits(9, 9), replace(SETTINGS, fit=fit), answer)
    assert (found.best, found.sharing) == (best, Sharing(1))
    assert ("about 2.5x as fast on 4" in found.words) == (fit == "any")


@pytest.mark.parametrize(
    "seconds, tried, best",
    [
        ([1.0, 0.6], 2, 0),  # of the others nobody knows: they stay allowed
        ([1.0, 0.6, 0.7], 3, 2),
        ([1.0, 0.6, 0.0, 0.7], 4, 0),
        ([1.0, 0.6, 0.0, 0.4], 4, 4),  # which is all that is allowed
        ([1.0, 0.0], 2, 0),
    ],
)
def test_what_nobody_tried_is_not_taken_for_slower(
    seconds: list[float], tried: int, best: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(several, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    def answer(ask: Ask) -> tuple[TraceAnswer, bool]:
        clock[0] += 60.0 if ask.sharing.devices == tried else 0.0
        step = seconds[ask.sharing.devices - 1]
        return TraceAnswer(estimate=replace(TOO_MUCH, need=1, low=1, high=1, seconds_per_step=step)), False

    asked = Ask(card=A100, context=Context(0, 0, ""), limit=60.0)
    found = each_of(asked, (1, 4), 8, FitLimits(9, 9), replace(SETTINGS, fit="any"), answer)
    assert found.best == best


def test_exchanges_take_time_and_slots_share_the_processors() -> None:
    slot = among(SETTINGS, TYPICAL, "slot", "CPU", 4)
    assert slot.flops < TYPICAL.flops and slot.exchange < TYPICAL.exchange and slot.meeting > TYPICAL.meeting
    card = among(SETTINGS, TYPICAL, "gpu", "A100", 2)
    assert card == TYPICAL == among(SETTINGS, TYPICAL, "slot", "CPU", 1)


def test_what_an_exchange_took_is_kept_for_each_number_of_devices_of_a_type(tmp_path: Path) -> None:
    settings = Settings(data=str(tmp_path))
    keep_speed(settings, "slot", "CPU", replace(TYPICAL, flops=1e9))
    keep_exchange(settings, "slot", "CPU", 2, 5e8, 2e-3)
    keep_exchange(settings, "gpu", "A100", 2, 9e9, 1e-5)
    assert knows_exchange(settings, "slot", "another CPU", 2) and not knows_exchange(settings, "slot", "CPU", 3)
    known = kept_speed(settings, "slot", "CPU")
    assert known is not None and known.flops == 1e9
    assert among(settings, TYPICAL, "gpu", "A100", 2).exchange == 9e9
    slot = among(settings, TYPICAL, "slot", "CPU", 2)
    assert (slot.exchange, slot.meeting) == (5e8, 2e-3)


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
