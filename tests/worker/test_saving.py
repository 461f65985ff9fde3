"""Wishes for a checkpoint: joined, kept waiting, refused, and what they leave behind; with a program made for it."""

from __future__ import annotations

import re
import threading
from contextvars import ContextVar

import anyio
import anyio.lowlevel
import pytest

from jupyter_gpufit.errors import CannotSave, NotHere, NotSaved
from jupyter_gpufit.jobs.events import CouldNotSave, Saved
from jupyter_gpufit.train import Released
from jupyter_gpufit.worker import saving
from jupyter_gpufit.worker.saving import Durable
from tests.worker.saving_stage import THERE, Disk, defects, training, until

pytestmark = pytest.mark.anyio


async def test_a_wish_waits_for_a_safe_point_and_durable_is_said_only_when_it_is() -> None:
    async with training() as stage:
        number = stage.saver.ask("asked")
        await stage.safe_point()
        assert stage.gone_on and not stage.told and stage.disk.prepared == 1
        await stage.durable()
        assert isinstance(stage.told[0], Saved)
        assert (stage.told[0].number, stage.told[0].step, stage.told[0].bytes) == (number, 7, 100)


async def test_a_checkpoint_that_is_not_exact_is_told_as_such() -> None:
    async with training() as stage:
        stage.saver.ask("asked")
        await stage.safe_point()
        stage.disk.writing[-1].set_result(Durable("000001-000001", 100, exact=False))
        await stage.until_told(1)
        assert isinstance(stage.told[0], Saved) and not stage.told[0].exact
        assert stage.last[0] is not None and not stage.last[0].exact


async def test_wishes_for_the_same_safe_point_are_one_checkpoint() -> None:
    async with training() as stage:
        assert stage.saver.ask("asked") == stage.saver.ask("asked")
        await stage.safe_point()
        await stage.durable()
        assert stage.disk.whys == ["asked"] and not stage.disk.wanted


async def test_a_wish_while_one_is_written_is_a_checkpoint_of_its_own() -> None:
    async with training() as stage:
        first = stage.saver.ask("asked")
        await stage.safe_point()
        second = stage.saver.ask("asked")
        assert second != first and not stage.disk.wanted
        await stage.durable()
        await stage.safe_point()
        await stage.durable()
        assert [event.number for event in stage.told] == [first, second]


async def test_a_release_joins_a_wish_and_the_main_thread_never_goes_on() -> None:
    async with training() as stage:
        number = stage.saver.ask("asked")
        assert stage.saver.ask("release", lambda step: Released(f"at {step}")) == number
        await stage.safe_point()
        assert not stage.gone_on
        assert stage.saver.ask("asked") == number  # it is being saved
        await stage.durable()
        await until(lambda: bool(stage.left))
        assert stage.left == [Released("at 7")] and not stage.gone_on


@pytest.mark.parametrize("error", [NotSaved("/full", "No space left on device", "Free some."), KeyError("a defect")])
async def test_a_move_that_cannot_be_saved_gives_the_target_back_and_trains_on(error: Exception) -> None:
    given_back: list[bool] = []
    async with training() as stage:
        stage.saver.ask("move", lambda step: THERE, lambda: given_back.append(True))
        await stage.safe_point()
        assert not stage.gone_on
        stage.disk.writing[-1].set_exception(error)
        await stage.until_told(1)
        assert isinstance(stage.told[0], CouldNotSave) and str(error) in stage.told[0].reason
        await until(lambda: bool(stage.gone_on))
        assert given_back and not stage.left


async def test_what_cannot_be_prepared_is_said_whatever_it_is_and_the_next_wish_tries_again() -> None:
    async with training(Disk(unprepared=KeyError("a defect"))) as stage:
        stage.saver.ask("asked")
        await stage.until_told(1)
        assert isinstance(stage.told[0], CouldNotSave) and stage.told[0].reason == "KeyError: 'a defect'"
        stage.disk.unprepared = None
        stage.saver.ask("asked")
        await stage.safe_point()
        await stage.durable()
        assert isinstance(stage.told[1], Saved)


async def test_a_safe_point_that_is_none_is_tried_again() -> None:
    disk = Disk(refuses=[NotHere("a generator is running."), NotHere("a generator is running.")])
    async with training(disk) as stage:
        stage.saver.ask("asked")
        for _ in range(3):
            await stage.safe_point()
        await stage.durable()
        assert isinstance(stage.told[0], Saved) and len(stage.told) == 1


async def test_the_training_goes_on_while_what_a_quick_save_needs_is_made() -> None:
    async with training(Disk(refuses=[saving.NotReady()])) as stage:
        stage.saver.ask("asked")
        await stage.until_wanted()
        stage.disk.makes = True
        await stage.safe_point()
        await until(lambda: stage.disk.prepared == 2)
        stage.saver.ask("asked")  # somebody else does not make it stand still either
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        assert stage.gone_on and not stage.disk.wanted
        stage.disk.ready.set()
        await stage.safe_point()
        await stage.durable()
        assert isinstance(stage.told[0], Saved) and stage.disk.prepared == 2


async def test_what_cannot_be_saved_is_said_and_the_next_wish_is_tried() -> None:
    disk = Disk(refuses=[CannotSave((("model.cb['q'][1]", "a lock"),))])
    async with training(disk) as stage:
        first = stage.saver.ask("asked")
        await stage.safe_point()
        await stage.until_told(1)
        assert isinstance(stage.told[0], CouldNotSave) and "model.cb['q'][1]" in stage.told[0].reason
        assert stage.gone_on and stage.told[0].number == first
        stage.saver.ask("asked")
        await stage.safe_point()
        await stage.durable()
        assert isinstance(stage.told[1], Saved)


async def test_what_stands_in_the_way_only_in_a_library_may_pass_and_is_tried_again() -> None:
    passing = CannotSave((("wl of init()._lock", "a lock"),), passing=True)
    async with training(Disk(refuses=[passing, passing])) as stage:
        stage.saver.ask("asked")
        await stage.until_wanted()
        for _ in range(3):
            assert stage.disk.wanted, "at the very next point"
            stage.saver.at_safe_point()
        await stage.durable()
        assert isinstance(stage.told[0], Saved) and len(stage.told) == 1


async def test_what_does_not_pass_in_a_library_is_said_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "PATIENCE_IN_LIBRARY", 0.0)
    async with training(Disk(refuses=[CannotSave((("wl of init()._lock", "a lock"),), passing=True)])) as stage:
        stage.saver.ask("asked")
        await stage.safe_point()
        await stage.until_told(1)
        assert isinstance(stage.told[0], CouldNotSave) and "wl of init()._lock" in stage.told[0].reason


async def test_what_a_cell_began_that_is_often_in_the_way_is_looked_at_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "DOUBTS", 0.0)
    async with training(Disk(doubtful=True)) as stage:
        await stage.safe_point()
        assert len(stage.disk.looks) == 1


async def test_a_look_ahead_that_fails_only_in_a_library_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "LOOK_AHEAD", 0.0)
    monkeypatch.setattr(saving, "DOUBTS", 0.0)
    monkeypatch.setattr(saving, "LOOKS", 3)
    disk = Disk(stands_in_library=True)
    async with training(disk) as stage:
        for _ in range(3):
            await stage.safe_point()
        assert disk.looks == [True, True, False]


async def test_a_defect_of_ours_ends_no_training() -> None:
    async with training(Disk(refuses=[ZeroDivisionError("ours")])) as stage:
        stage.saver.ask("asked")
        await stage.safe_point()
        await stage.until_told(1)
        assert stage.gone_on and isinstance(defects[-1], ZeroDivisionError)


async def test_the_clock_asks_by_itself_but_not_while_one_is_written() -> None:
    async with training(every=0.05) as stage:
        await stage.safe_point()
        assert stage.disk.whys == ["automatic"]
        await anyio.sleep(0.2)  # a few times `every`, in which nothing may happen
        assert not stage.disk.wanted
        await stage.durable()
        await stage.safe_point()
        assert stage.disk.whys == ["automatic", "automatic"]


async def test_the_clock_says_a_reason_once() -> None:
    full = [CannotSave((("x", "a lock"),)), CannotSave((("x", "a lock"),)), CannotSave((("y", "a lock"),))]
    async with training(Disk(refuses=list[Exception](full)), every=0.02) as stage:
        for _ in range(4):
            await stage.safe_point()
        assert ["x" in event.reason for event in stage.told if isinstance(event, CouldNotSave)] == [True, False]


async def test_a_wish_that_finds_no_safe_point_says_what_holds_it_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "PATIENCE", 0.05)
    monkeypatch.setattr(saving, "LOOK_AGAIN", 0.02)
    async with training() as stage:
        stage.saver.ask("asked")
        await until(lambda: any(re.match(r"waiting for a safe point since \d+ s: inside", one) for one in stage.said))


async def test_that_room_is_made_for_a_checkpoint_is_said_while_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "PATIENCE", 0.02)
    monkeypatch.setattr(saving, "LOOK_AGAIN", 0.02)
    async with training(Disk(refuses=[saving.NotReady()])) as stage:
        stage.saver.ask("asked")
        await stage.until_wanted()
        stage.disk.makes = True
        await stage.safe_point()
        await until(lambda: bool(stage.said) and stage.said[-1].endswith(f" s: {saving.ROOM}"))
        assert stage.said[-1].startswith("waiting since")
        stage.disk.ready.set()
        await until(lambda: stage.said[-1].startswith("waiting for a safe point since"))
        await stage.safe_point()
        await stage.durable()


async def test_a_cell_that_ends_first_settles_the_wish() -> None:
    async with training() as stage:
        stage.saver.ask("asked")
        stage.saver.close()
        assert isinstance(stage.told[0], CouldNotSave) and "the cell ended first" in stage.told[0].reason


def test_what_a_signals_handler_raises_does_not_wake_a_job_that_leaves() -> None:
    go_on = threading.Event()

    class Raises(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            if not go_on.is_set():
                go_on.set()
                raise RuntimeError("DataLoader worker is killed by signal")
            self.set()
            return True

    saving._wait_here(Raises())
    assert go_on.is_set()


HERE: ContextVar[str] = ContextVar("HERE", default="the main thread's context")


async def test_what_follows_a_safe_point_is_done_in_the_context_of_the_control_thread() -> None:
    """Where sniffio is installed, anyio looks there for its loop; elsewhere the job would wait for ever."""
    HERE.set("the control thread's")
    found: list[str] = []

    def leave(step: int) -> Released:
        found.append(HERE.get())
        return Released("")

    async with training(Disk(refuses=[CannotSave(())])) as stage:
        stage.saver.ask("release", leave, lambda: found.append(HERE.get()))
        await stage.safe_point()
        await stage.until_told(1)
        stage.saver.ask("release", leave)
        await stage.safe_point()
        await stage.durable()
        await until(lambda: bool(stage.left))

    assert found == ["the control thread's"] * 2
