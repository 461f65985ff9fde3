"""Waiting for the lab to change: no change is missed, and nothing else wakes anybody."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from jupyter_gpufit.lab import watch as watch_module
from jupyter_gpufit.lab.published import Published, publish
from jupyter_gpufit.lab.watch import LabWatch
from tests.lab.values import request

pytestmark = pytest.mark.anyio

NOT_LONG = 0.05  # seconds: for what must not come


@pytest.fixture
def ticket(tmp_path: Path) -> Published:
    return publish(tmp_path, request())


async def changed(watch: LabWatch, patience: float = 300) -> bool:
    """Has there been a change? Waits for all that comes of one, too."""
    found = await watch.changed(patience)
    while await watch.changed(NOT_LONG):
        pass
    return found


async def test_a_new_ticket_wakes(tmp_path: Path) -> None:
    with LabWatch(tmp_path) as watch:
        file = publish(tmp_path, request())
        assert await changed(watch)
    file.drop()


async def test_an_end_wakes(tmp_path: Path, ticket: Published) -> None:
    with LabWatch(tmp_path) as watch:
        os.close(ticket.fd)  # all that a kill does
        assert await changed(watch)
        ticket.path.unlink()
        assert await changed(watch)


async def test_readers_and_the_mutex_and_notes_wake_nobody(tmp_path: Path, ticket: Published) -> None:
    (tmp_path / "mutex").touch()
    with LabWatch(tmp_path) as watch:
        ticket.path.read_bytes()
        os.close(os.open(tmp_path / "mutex", os.O_RDONLY))
        (tmp_path / "u.1.0000000000000000").write_text("note")
        assert not await changed(watch, NOT_LONG)
    ticket.drop()


async def test_what_happened_before_the_wait_is_not_missed(tmp_path: Path) -> None:
    watch = LabWatch(tmp_path)
    publish(tmp_path, request()).drop()
    assert await watch.changed(300)
    watch.close()
    watch.close()


async def test_what_was_forgotten_wakes_no_more(tmp_path: Path) -> None:
    with LabWatch(tmp_path) as watch:
        publish(tmp_path, request()).drop()
        assert watch.forget()
        assert not await changed(watch, NOT_LONG)


@pytest.mark.parametrize("remove", [True, False])
async def test_a_lab_made_anew_is_watched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remove: bool) -> None:
    monkeypatch.setattr(watch_module, "POLL", 0.001)
    lab = tmp_path / "lab"
    lab.mkdir()
    with LabWatch(lab) as watch:
        lab.rmdir() if remove else lab.rename(tmp_path / "old")
        assert await watch.changed(300)
        lab.mkdir()
        with anyio.fail_after(300):
            while watch._inotify is None:
                await watch.changed(300)
        await changed(watch, NOT_LONG)
        publish(lab, request()).drop()
        assert await changed(watch)


async def test_without_a_free_watch_it_polls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(**_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(watch_module, "POLL", 0.001)
    monkeypatch.setattr(watch_module, "INotify", none_left)
    with LabWatch(tmp_path) as watch:
        assert await watch.changed(300)
        assert not watch.forget()
