"""What can be done with a job, and why the rest cannot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jupyter_gpufit.actions.possible import Target, possible
from jupyter_gpufit.actions.status import ClaimView, JobView, RoomView, Status
from jupyter_gpufit.jobs.record import LastCheckpoint
from jupyter_gpufit.jobs.state import STATES, State, in_words
from jupyter_gpufit.testing import fake_device
from jupyter_gpufit.units import GiB

SAVED = LastCheckpoint(step=3, time=0.0, bytes=1)
HERE, THERE = fake_device("GPU-0", label="0"), fake_device("GPU-1", label="1")
EMPTY = RoomView(free=72 * GiB, foreign=0, held_for="", reserve=8 * GiB)


def job(state: State, checkpoint: LastCheckpoint | None = None) -> JobView:
    return JobView("j", "bert", state, "", 0.0, 0.0, 1, "0", 1, 3, "a.ipynb", checkpoint=checkpoint)


def claim(name: str, device: str, bytes: int, *, alone: bool = False, mine: bool = False) -> ClaimView:
    who = "me" if mine else "ada"
    id = "j" if mine else "x"
    return ClaimView(f"c-{name}", who, mine, id, name, "", (device,), bytes, alone, 0.0, ())


def status(*claims: ClaimView, rooms: tuple[RoomView, RoomView] = (EMPTY, EMPTY)) -> Status:
    return Status((HERE, THERE), (), "", 0.0, rooms=rooms, claims=claims)


def verbs(state: State, checkpoint: LastCheckpoint | None = None) -> dict[str, str]:
    can = possible(job(state, checkpoint), status())
    return {verb: getattr(can, verb) for verb in ("checkpoint", "release", "resume", "stop")}


def test_a_running_job() -> None:
    assert verbs("running") == {"checkpoint": "", "release": "", "resume": "It is running.", "stop": ""}


@pytest.mark.parametrize("state", ["estimating", "queued", "starting"])
def test_one_that_has_not_begun_can_only_be_stopped(state: State) -> None:
    can = verbs(state)
    assert can["stop"] == "" and can["checkpoint"].startswith(f"It is {state}") and can["release"]


@pytest.mark.parametrize("state", ["released", "failed", "stopped", "lost"])
def test_one_that_left_a_checkpoint_can_be_resumed(state: State) -> None:
    assert verbs(state, SAVED)["resume"] == ""
    assert verbs(state)["resume"] == f"It {in_words(state)}, and left no checkpoint."
    assert all(verbs(state, SAVED)[verb] for verb in ("checkpoint", "release", "stop"))


def test_one_that_is_done_needs_nothing() -> None:
    assert all(verbs("done", SAVED).values())


@pytest.mark.parametrize("state", STATES)
def test_every_state_has_a_reason_or_a_verb(state: State) -> None:
    assert list(verbs(state, SAVED).values()).count("") >= (state != "done")
    for target in possible(job(state), status()).move:
        assert target.ok == (not target.reason)


def moves(*claims: ClaimView, there: RoomView = EMPTY) -> Target:
    """Whether a running job that claims 20 GiB on 0 may move to 1."""
    here, there_too = possible(job("running"), status(*claims, rooms=(EMPTY, there))).move
    assert here == Target(device="0", ok=False, reason="It is there already.")
    return there_too


MINE = claim("bert", "0", 20 * GiB, mine=True)


def test_it_may_move_where_it_fits() -> None:
    assert moves(MINE).ok
    assert moves(MINE, claim("small", "1", 10 * GiB), there=replace(EMPTY, free=62 * GiB)).ok


def test_it_may_not_move_where_it_does_not_fit() -> None:
    full = replace(EMPTY, free=10 * GiB)
    assert moves(MINE, claim("big", "1", 62 * GiB), there=full).reason == (
        "It takes 20.0 GiB, and 10.0 GiB are free there."
    )
    assert moves(MINE, claim("big", "1", 72 * GiB, alone=True)).reason == "It is held alone by ada's big."
    assert moves(MINE, there=replace(EMPTY, held_for="bob's both")).reason == "It is kept for bob's both."


def test_one_that_takes_a_whole_device_needs_a_whole_one() -> None:
    whole = claim("bert", "0", 72 * GiB, alone=True, mine=True)
    assert moves(whole).ok
    assert moves(whole, claim("small", "1", GiB)).reason == "It would take the whole of it, and ada's small has a part."
    strangers = replace(EMPTY, free=50 * GiB, foreign=22 * GiB)
    assert "50.0 GiB are free there" in moves(whole, there=strangers).reason


def test_a_device_that_is_broken_says_so() -> None:
    lost = replace(THERE, problem="It has fallen off the bus.")
    seen = replace(status(MINE), devices=(HERE, lost))
    assert possible(job("running"), seen).move[1].reason == "It has fallen off the bus."


def test_without_rooms_nothing_is_promised() -> None:
    seen = Status((HERE, THERE), (), "the lab cannot be read", 0.0)
    assert not possible(job("running"), seen).move[1].ok
