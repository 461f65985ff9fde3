"""One reading for all who look, and none while nobody does."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from jupyter_gpufit.actions.status import ClaimView, RoomView, Status
from jupyter_gpufit.server import readings as readings_module
from jupyter_gpufit.server import wire
from jupyter_gpufit.server.readings import SAMPLES, Readings, ReadingWatch
from jupyter_gpufit.server.service import Service
from jupyter_gpufit.testing import fake_device

PATIENCE = 300.0  # seconds: for what must come; never a measure of speed


def reading(number: float, problem: str = "") -> Status:
    return Status((), (), problem, time=number)


def test_one_reading_serves_every_client() -> None:
    numbers = iter(range(3))

    async def ask() -> list[Status]:
        readings = Readings(lambda: reading(next(numbers)), fresh=3600.0)
        return [*await asyncio.gather(readings.latest(), readings.latest()), await readings.latest()]

    assert asyncio.run(ask()) == [reading(0)] * 3


def test_reads_again_when_the_reading_is_old() -> None:
    numbers = iter(range(2))

    async def ask() -> list[Status]:
        readings = Readings(lambda: reading(next(numbers)), fresh=-1.0)
        return [await readings.latest(), await readings.latest()]

    assert asyncio.run(ask()) == [reading(0), reading(1)]


def test_a_driver_that_hangs_is_told_and_keeps_one_thread() -> None:
    numbers, answers = iter(range(3)), threading.Event()

    def read() -> Status:
        number = next(numbers)
        answers.wait()
        return reading(number)

    async def ask() -> list[Status]:
        readings = Readings(read, fresh=3600.0, patience=0.05)
        early = [await readings.latest(), await readings.latest()]
        answers.set()
        while (late := await readings.latest()).problem:
            pass
        return [*early, late]

    *early, late = asyncio.run(ask())
    assert all("have not answered" in status.problem for status in early)
    assert late == reading(0)


def test_an_unexpected_failure_is_told(caplog: pytest.LogCaptureFixture) -> None:
    def read() -> Status:
        raise RuntimeError("out of paper")

    assert "out of paper" in asyncio.run(Readings(read).latest()).problem
    assert "out of paper" in caplog.text


def test_a_setting_that_cannot_be_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUFIT_DEVICES", "cpu:many")

    async def ask() -> Status:
        return await Service().readings.latest()

    status = asyncio.run(ask())
    assert "GPUFIT_DEVICES" in status.problem and status.devices == ()


def test_what_was_read_before_something_happened_is_old() -> None:
    numbers, went, goes = iter(range(3)), threading.Event(), threading.Event()

    def read() -> Status:
        number = next(numbers)
        went.set()
        goes.wait(PATIENCE)
        return reading(number)

    async def ask() -> list[Status]:
        readings = Readings(read, fresh=3600.0)
        first = asyncio.create_task(readings.latest())
        await asyncio.to_thread(went.wait, PATIENCE)
        readings.expire()
        goes.set()
        return [await first, await readings.latest(), await readings.latest()]

    assert asyncio.run(ask()) == [reading(0), reading(1), reading(1)]


def test_what_devices_did_is_kept_for_a_while() -> None:
    numbers = iter(range(SAMPLES + 5))

    def read() -> Status:
        busy = fake_device(utilisation=next(numbers))
        slot = fake_device("cpu:0", kind="slot", total=100, utilisation=None)
        return Status((busy, slot), (), "", 0.0, rooms=(RoomView(1, 0, ""), RoomView(40, 0, "")))

    async def ask() -> dict[str, list[wire.Sample]]:
        readings = Readings(read, fresh=-1.0)
        for _ in range(SAMPLES + 5):
            await readings.latest()
        return {uuid: list(samples) for uuid, samples in readings.history.items()}

    history = asyncio.run(ask())
    assert [busy for _, busy, _ in history["GPU-fake"]] == list(range(5, SAMPLES + 5))
    assert {used for _, _, used in history["cpu:0"]} == {60}  # what is claimed of a slot


def test_who_holds_a_device_without_computing_is_seen() -> None:
    held = ClaimView("c", "ada", False, "", "gnn", "", ("0",), 1, False, 0.0, ())
    # The time, how busy it is, who holds it; between the last two looks nobody looked.
    moments = iter([(10.0, 0, ()), (20.0, 0, (held,)), (30.0, 0, (held,)), (40.0, 3, (held,)), (50.0, 0, (held,))])
    late = iter([(400.0, 0, (held,))])

    def read() -> Status:
        time, busy, claims = next(moments, None) or next(late)
        return Status((fake_device(utilisation=busy),), (), "", time, rooms=(RoomView(1, 0, ""),), claims=claims)

    async def ask() -> list[float | None]:
        readings = Readings(read, fresh=-1.0)
        found = []
        for _ in range(6):
            await readings.latest()
            found.append(readings.idle.get("GPU-fake"))
        return found

    assert asyncio.run(ask()) == [None, 20.0, 20.0, None, 50.0, 400.0]


@dataclass
class Reader:
    """What there is to read, and how often it was read."""

    problem: str = ""
    count: int = 0

    def __call__(self) -> Status:
        self.count += 1
        return reading(float(self.count), self.problem)


@dataclass(eq=False)
class Looker:
    """Somebody who looks; `heard` is set whenever something comes."""

    got: list[str | None] = field(default_factory=list)
    heard: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, status: wire.WireStatus, message: str | None) -> None:
        self.got.append(message)
        self.heard.set()

    async def next(self) -> str | None:
        while not self.got:
            self.heard.clear()
            await self.heard.wait()
        return self.got.pop(0)


def looking(test: Callable[[Reader, ReadingWatch], Any]) -> None:
    async def run() -> None:
        reader = Reader()
        await asyncio.wait_for(test(reader, ReadingWatch(Readings(reader))), PATIENCE)

    asyncio.run(run())


def problem_in(message: str | None) -> str:
    assert message is not None
    problem: str = json.loads(message)["status"]["problem"]
    return problem


def test_of_what_devices_did_only_the_news_is_sent_until_somebody_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings_module, "EVERY", 0.01)
    monkeypatch.setattr(readings_module, "SOON", 0.0)
    numbers = iter(range(1, 1000))

    def read() -> Status:
        number = next(numbers)
        device = fake_device(utilisation=(number + 1) // 2)  # of two readings the second is no news
        return Status((device,), (), "", float(number), rooms=(RoomView(1, 0, ""),))

    async def times(looker: Looker) -> list[float]:
        while (message := await looker.next()) is None:
            pass
        return [time for time, _, _ in json.loads(message)["status"]["devices"][0]["history"]]

    async def ask() -> None:
        watch, first, second = ReadingWatch(Readings(read, fresh=-1.0)), Looker(), Looker()
        watch.join(first)
        known = await times(first)
        for _ in range(5):
            fresh = await times(first)
            assert len(fresh) == 2 and fresh[0] == known[-1] + 1  # what came in between is among it
            known += fresh
        watch.join(second)
        assert (await times(second))[: len(known)] == known
        watch.leave(first)
        watch.leave(second)
        assert watch.resting is not None
        await watch.resting

    asyncio.run(asyncio.wait_for(ask(), PATIENCE))


def test_who_joins_is_told_at_once_and_then_only_what_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings_module, "EVERY", 0.05)
    monkeypatch.setattr(readings_module, "SOON", 0.0)

    async def test(reader: Reader, watch: ReadingWatch) -> None:
        looker = Looker()
        watch.join(looker)
        assert problem_in(await looker.next()) == ""
        assert await looker.next() is None  # read again, and nothing is new
        reader.problem = "lost"
        while (message := await looker.next()) is None:
            pass
        assert problem_in(message) == "lost"
        watch.leave(looker)

    looking(test)


def test_a_nudge_brings_the_next_reading_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings_module, "EVERY", 3600.0)

    async def test(reader: Reader, watch: ReadingWatch) -> None:
        looker = Looker()
        watch.join(looker)
        await looker.next()
        reader.problem = "changed"
        watch.nudge_again_and_again()
        while (message := await looker.next()) is None:
            pass
        assert problem_in(message) == "changed"
        watch.leave(looker)

    looking(test)


def test_two_lookers_cost_one_reading_and_nobody_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings_module, "EVERY", 0.02)
    monkeypatch.setattr(readings_module, "SOON", 0.0)

    async def test(reader: Reader, watch: ReadingWatch) -> None:
        one, other = Looker(), Looker()
        watch.join(one)
        watch.join(other)
        for _ in range(5):
            await one.next()
            await other.next()
        assert reader.count <= 7
        watch.leave(one)
        watch.leave(other)
        assert watch.resting is not None
        await watch.resting
        before = reader.count
        await asyncio.sleep(0.1)  # five times as long as it would have taken
        assert reader.count == before
        again = Looker()
        watch.join(again)
        assert await again.next() is not None
        watch.leave(again)

    looking(test)
