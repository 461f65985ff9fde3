"""The verbs under way: each in a thread with a loop of its own.

So nothing that one does (files, /proc, signals, a worker that does not answer) holds up the Jupyter server, and it goes
on when whoever pressed the button has gone.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import anyio

from ..actions.buttons import ask, give_up, on_job, remove
from ..actions.trying import try_it
from ..errors import GpufitError, TooManyActions, first_of
from ..jobs.verbs import Verb
from ..settings import Settings

log = logging.getLogger(__name__)

FIRST_WORD = 2.0  # seconds for which an answer waits for the verb to say what it will do, or why it cannot
ENDED = "ended"  # stands for several jobs
MOST = 32  # verbs under way at once

Asked = Verb | Literal["ask", "remove", "try"]
Steps = Callable[[], AsyncIterator[str]]
Tell = Callable[[str, str, str, bool], None]  # id, verb, text, whether it failed: what came after the answer


@dataclass
class Deed:
    """A verb under way."""

    words: list[str] = field(default_factory=list)
    failure: Exception | None = None
    spoke: asyncio.Event = field(default_factory=asyncio.Event)  # or has ended without a word
    answered: bool = False


class Actions:
    """Every verb that is under way, at most one of a kind for a job: a second press is an impatient one."""

    def __init__(self, settings: Callable[[], Settings], tell: Tell, stirred: Callable[[], None]) -> None:
        self._settings = settings
        self._tell = tell
        self._stirred = stirred  # something is about to change
        self._deeds: dict[tuple[str, Asked], Deed] = {}

    async def on_job(self, id: str, verb: Verb, to: str) -> str:
        """Act on one of this user's jobs; returns what it said in its first moment."""
        return await self._do(id, verb, lambda: on_job(self._settings(), id, verb, to))

    async def ask(self, claim: str) -> str:
        """Ask another user to release their claim."""
        return await self._do(claim, "ask", lambda: ask(self._settings(), claim))

    async def give_up(self, hold: str) -> str:
        """Release a claim or a ticket of this user's."""
        return await self._do(hold, "release", lambda: give_up(self._settings(), hold))

    async def remove(self, ids: Sequence[str]) -> str:
        """Remove jobs that have ended."""
        return await self._do(ids[0] if len(ids) == 1 else ENDED, "remove", lambda: remove(self._settings(), ids))

    async def try_it(self, id: str) -> str:
        """Call one of this user's deployed models with made inputs."""
        return await self._do(id, "try", lambda: try_it(self._settings(), id))

    @property
    def under_way(self) -> dict[str, tuple[Verb, ...]]:
        """What each job was asked for that is not done yet; by its id."""
        found: dict[str, tuple[Verb, ...]] = {}
        for id, verb in self._deeds:
            if verb != "ask" and verb != "remove" and verb != "try":
                found[id] = (*found.get(id, ()), verb)
        return found

    async def _do(self, id: str, verb: Asked, steps: Steps) -> str:
        deed = self._deeds.get((id, verb))
        if deed is None:
            if len(self._deeds) >= MOST:
                raise TooManyActions(len(self._deeds))
            deed = self._deeds[id, verb] = Deed()
            self._start(id, verb, deed, steps)
            self._stirred()
        with anyio.move_on_after(FIRST_WORD):
            await deed.spoke.wait()
        if deed.failure is not None and not deed.answered:
            raise deed.failure
        deed.answered = True
        return "\n".join(deed.words)

    def _start(self, id: str, verb: Asked, deed: Deed, steps: Steps) -> None:
        loop = asyncio.get_running_loop()

        def said(word: str) -> None:
            loop.call_soon_threadsafe(self._said, id, verb, deed, word)

        def run() -> None:
            failure = _failure(steps, said)
            try:
                loop.call_soon_threadsafe(self._ended, id, verb, deed, failure)
            except RuntimeError:
                pass  # the server has shut down; the verb is done all the same

        # A daemon: a verb that waits for a worker must not keep a server from shutting down.
        threading.Thread(target=run, name=f"gpufit-{verb}-{id}", daemon=True).start()

    def _said(self, id: str, verb: Asked, deed: Deed, word: str) -> None:
        if deed.answered:
            self._tell(id, verb, word, False)
        else:
            deed.words.append(word)
            deed.spoke.set()
        self._stirred()

    def _ended(self, id: str, verb: Asked, deed: Deed, failure: Exception | None) -> None:
        del self._deeds[id, verb]
        deed.failure = failure
        deed.spoke.set()
        if failure is not None and deed.answered:
            self._tell(id, verb, str(failure), True)
        self._stirred()


def _failure(steps: Steps, said: Callable[[str], None]) -> Exception | None:
    """Take all steps; what went wrong."""

    async def take() -> None:
        async for word in steps():
            said(word)

    try:
        anyio.run(take)
    except GpufitError as error:
        return error
    except Exception as error:  # the thread's outermost frame; a group of a task group's among them
        ours = error.split(GpufitError)[0] if isinstance(error, ExceptionGroup) else None
        if ours is not None:
            return first_of(ours)
        log.exception("An action failed")
        return error
    return None
