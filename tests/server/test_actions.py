"""Verbs under way: what is answered, what comes later, and that a second press starts nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from jupyter_gpufit.errors import GpufitError, JobBusy, TooManyActions
from jupyter_gpufit.server import actions as actions_module
from jupyter_gpufit.server.actions import Actions
from jupyter_gpufit.settings import Settings

PATIENCE = 300.0  # seconds: for what must come; never a measure of speed
Told = tuple[str, str, str, bool]


@dataclass
class Verb:
    """A verb whose steps a test lets happen."""

    words: tuple[str, ...] = ()
    failure: Exception | None = None
    silent: bool = False
    begun: int = 0
    threads: set[str] = field(default_factory=set)
    go: threading.Event = field(default_factory=threading.Event)

    async def __call__(self, settings: Settings, id: str, verb: str, to: str) -> AsyncIterator[str]:
        self.begun += 1
        self.threads.add(threading.current_thread().name)
        if not self.silent:
            yield "begun"
        await anyio.to_thread.run_sync(self.go.wait)
        for word in self.words:
            yield word
        if self.failure is not None:
            raise self.failure


class Heard:
    """What comes after an answer."""

    def __init__(self) -> None:
        self.told: asyncio.Queue[Told] = asyncio.Queue()
        self.stirred = 0

    def tell(self, id: str, verb: str, text: str, failed: bool) -> None:
        self.told.put_nowait((id, verb, text, failed))

    def stir(self) -> None:
        self.stirred += 1


def acting(verb: Verb, monkeypatch: pytest.MonkeyPatch, test: Callable[[Actions, Heard], Any]) -> None:
    monkeypatch.setattr(actions_module, "on_job", verb)

    async def run() -> None:
        heard = Heard()
        actions = Actions(Settings, heard.tell, heard.stir)
        try:
            await asyncio.wait_for(test(actions, heard), PATIENCE)
        finally:
            verb.go.set()

    asyncio.run(run())


def test_what_it_says_at_once_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    verb = Verb(words=("ended",))
    verb.go.set()

    async def test(actions: Actions, heard: Heard) -> None:
        assert (await actions.on_job("j", "stop", "")).startswith("begun")
        assert heard.stirred
        assert verb.threads == {"gpufit-stop-j"}  # never the event loop's own

    acting(verb, monkeypatch, test)


def test_it_is_under_way_from_the_press_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    verb = Verb(silent=True, words=("ended",))

    async def test(actions: Actions, heard: Heard) -> None:
        pressed = asyncio.create_task(actions.on_job("j", "stop", ""))
        await asyncio.sleep(0)
        assert actions.under_way == {"j": ("stop",)} and heard.stirred  # so that it shows before there is an answer
        verb.go.set()
        assert await pressed == "ended"
        async with asyncio.timeout(60):
            while actions.under_way:  # noqa: ASYNC110 - the verb's own thread says its end after its last word
                await asyncio.sleep(0)

    acting(verb, monkeypatch, test)


def test_what_it_says_later_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    verb = Verb(words=("ended",))

    async def test(actions: Actions, heard: Heard) -> None:
        assert await actions.on_job("j", "stop", "") == "begun"
        verb.go.set()
        assert await heard.told.get() == ("j", "stop", "ended", False)

    acting(verb, monkeypatch, test)


def test_a_late_failure_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    verb = Verb(failure=JobBusy("bert", "moved"))

    async def test(actions: Actions, heard: Heard) -> None:
        assert await actions.on_job("j", "move", "") == "begun"
        verb.go.set()
        assert await heard.told.get() == ("j", "move", str(verb.failure), True)

    acting(verb, monkeypatch, test)


def test_a_failure_before_any_word_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    verb = Verb(failure=JobBusy("bert", "moved"), silent=True)
    verb.go.set()

    async def test(actions: Actions, heard: Heard) -> None:
        with pytest.raises(JobBusy):
            await actions.on_job("j", "move", "")
        assert heard.told.empty()

    acting(verb, monkeypatch, test)


def test_a_failure_in_a_group_is_the_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    verb = Verb(
        failure=ExceptionGroup("of a task group", [ExceptionGroup("of another", [JobBusy("bert", "moved")])]),
        silent=True,
    )
    verb.go.set()

    async def test(actions: Actions, heard: Heard) -> None:
        with pytest.raises(JobBusy):
            await actions.on_job("j", "move", "")

    acting(verb, monkeypatch, test)


def test_a_second_press_starts_nothing_and_hears_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    verb = Verb()

    async def test(actions: Actions, heard: Heard) -> None:
        both = await asyncio.gather(actions.on_job("j", "stop", ""), actions.on_job("j", "stop", ""))
        assert list(both) == ["begun", "begun"] and verb.begun == 1
        await actions.on_job("other", "stop", "")
        assert verb.begun == 2

    acting(verb, monkeypatch, test)


def test_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions_module, "MOST", 2)
    verb = Verb()

    async def test(actions: Actions, heard: Heard) -> None:
        await actions.on_job("a", "stop", "")
        await actions.on_job("b", "stop", "")
        with pytest.raises(TooManyActions):
            await actions.on_job("c", "stop", "")

    acting(verb, monkeypatch, test)


def test_a_defect_of_ours_is_not_one_of_the_users(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    verb = Verb(failure=ZeroDivisionError("ours"), silent=True)
    verb.go.set()

    async def test(actions: Actions, heard: Heard) -> None:
        with pytest.raises(ZeroDivisionError):
            await actions.on_job("j", "stop", "")

    acting(verb, monkeypatch, test)
    assert "An action failed" in caplog.text and not issubclass(ZeroDivisionError, GpufitError)
