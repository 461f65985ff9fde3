"""What a job wants by itself gives way to its user and to those whose turn it is."""

from __future__ import annotations

import pytest

from jupyter_gpufit.errors import NotSaved
from jupyter_gpufit.jobs.events import CouldNotSave
from jupyter_gpufit.testing import fake_device, fake_grant
from jupyter_gpufit.train import Moved, Released
from tests.worker.saving_stage import THERE, training, until

pytestmark = pytest.mark.anyio


async def test_what_the_job_wants_by_itself_gives_way_to_a_release_and_gives_back_what_it_held() -> None:
    given_back: list[str] = []
    async with training() as stage:
        moved = Moved(fake_grant(fake_device()))
        number = stage.saver.ask("move", lambda step: moved, lambda: given_back.append("device"), own=True)
        assert stage.saver.ask("release", lambda step: Released(f"at {step}")) == number
        assert given_back == ["device"]
        await stage.safe_point()
        await stage.durable()
        await until(lambda: bool(stage.left))
        assert stage.left == [Released("at 7")] and given_back == ["device"]


@pytest.mark.parametrize("can_be_saved", [True, False])
async def test_a_turn_that_ends_while_a_release_comes_is_told_that_it_failed_only_where_it_did(
    can_be_saved: bool,
) -> None:
    failed: list[str] = []
    async with training() as stage:
        stage.saver.ask("turn", lambda step: THERE, lambda: failed.append("turn"))
        await stage.safe_point()
        stage.saver.ask("release", lambda step: Released("released"), lambda: failed.append("release"))
        assert failed == []
        if can_be_saved:
            await stage.durable()
            await until(lambda: bool(stage.left))
            assert stage.left == [Released("released")] and failed == []
        else:
            stage.disk.writing[-1].set_exception(NotSaved("/full", "No space left on device", "Free some."))
            await stage.until_told(1)
            assert sorted(failed) == ["release", "turn"] and not stage.left


async def test_a_cell_that_ends_before_what_the_job_wanted_by_itself_says_nothing_of_it() -> None:
    given_back: list[str] = []
    async with training() as stage:
        stage.saver.ask("move", lambda step: THERE, lambda: given_back.append("device"), own=True)
        await stage.until_wanted()
        stage.saver.close()
        assert given_back == ["device"] and stage.told == []
        stage.saver.ask("move", lambda step: THERE)
        stage.saver.close()
        assert [type(one) for one in stage.told] == [CouldNotSave]
