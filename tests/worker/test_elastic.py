"""When a training decides again on how many devices it runs; with a look made for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

from jupyter_gpufit.worker import elastic
from jupyter_gpufit.worker.elastic import AFTER_FAILURE, Elastic
from jupyter_gpufit.worker.saving import Saver
from jupyter_gpufit.worker.training import Training

pytestmark = pytest.mark.anyio
EVERY = 60.0


class Ended(Exception):
    pass


@pytest.mark.slow(5)
async def test_after_a_change_that_came_to_nothing_it_rests_for_long_and_says_meanwhile_that_it_gives_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    training: Any = SimpleNamespace(
        handover=SimpleNamespace(course=None),
        settings=SimpleNamespace(replan=EVERY),
        steps=SimpleNamespace(made=9, seconds=0.0),
        life=SimpleNamespace(),
        granted=SimpleNamespace(devices=[SimpleNamespace(label="0")], claim=None),
        pace=SimpleNamespace(steps_per_second=None),
        name="bert",
        saving_took=0.0,
        take=lambda event: None,
    )
    given_up: list[Any] = []
    saver = SimpleNamespace(ask=lambda why, leave, give_up, *, own: given_up.append(give_up))
    held: Any = SimpleNamespace(granted=training.granted, give_back=lambda: None)
    one, happened = Elastic(cast(Training, training), cast(Saver, saver)), list[tuple[str, Any, Any]]()

    async def look() -> None:
        happened.append(("look", None, training.gives))
        if len(given_up) < 1:
            one._go_on_with(held, "bert waits")

    async def sleep(seconds: float) -> None:
        if given_up and len(happened) == 2:
            given_up[0]()  # seconds after the look that asked for it
        happened.append(("sleep", seconds, training.gives))
        if len(happened) >= 6:
            raise Ended

    monkeypatch.setattr(elastic, "refusal", lambda life, verb: None)
    monkeypatch.setattr(elastic, "anyio", SimpleNamespace(sleep=sleep, create_task_group=anyio.create_task_group))
    monkeypatch.setattr(one, "_is_free", lambda: True)
    monkeypatch.setattr(one, "_look", look)
    with pytest.raises(ExceptionGroup):
        await one.watch()
    assert happened == [
        ("sleep", EVERY, True),
        ("look", None, True),
        ("sleep", EVERY, False),
        ("sleep", EVERY * (AFTER_FAILURE - 1), False),
        ("look", None, True),
        ("sleep", EVERY, True),
    ]
