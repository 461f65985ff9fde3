"""The WebSocket: a status when something has changed, and the tails of journals.

Nothing queues up for a slow client: it is sent one message at a time, the next status is always the latest, and entries
are read from the file only when the ones before have left. A client that takes nothing for a while is disconnected.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from pathlib import Path
from typing import Any

from jupyter_server.auth.decorator import authorized, ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from ..actions.buttons import find_mine
from ..errors import GpufitError
from ..jobs.state import OVER
from ..system.background import aside
from . import wire
from .encode import to_json
from .journals import Following
from .service import Service

PATIENCE = 20.0  # seconds for which a client may take nothing
LONGEST = 4096  # characters of a message of a client's
MOST_FOLLOWED = 16  # journals at once
MOST_SAID = 64  # words of actions kept for a client; it sees their effect in the status anyway
STRETCH = 200  # entries in one message


class Events(WebSocketMixin, WebSocketHandler, JupyterHandler):
    """One client."""

    auth_resource = "gpufit"

    def initialize(self, service: Service) -> None:
        self._service = service
        self._sender: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._status = ""  # JSON that is to be sent
        self._said: deque[str] = deque(maxlen=MOST_SAID)
        self._followed: dict[str, _Followed] = {}

    @ws_authenticated
    @authorized("read", "gpufit")  # type: ignore[untyped-decorator]
    async def get(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        await super().get(*args, **kwargs)

    def open(self, *args: str, **kwargs: str) -> None:
        super().open(*args, **kwargs)
        self._sender = asyncio.create_task(self._send())
        self._service.join(self)

    def on_close(self) -> None:
        self._service.leave(self)
        if self._sender is not None:
            self._sender.cancel()
        for id in list(self._followed):
            self._unfollow(id)
        super().on_close()

    # What the service gives ------------------------------------------------------------------------------------------

    def take(self, status: wire.WireStatus, message: str | None) -> None:
        if message is not None:
            self._status = message
            self._wake.set()
        states = {job.id: job.state for job in status.jobs}
        for id, followed in self._followed.items():
            # The death of a worker changes no file of its job.
            if followed.state != (state := states.get(id, "")):
                followed.state = state
                followed.changed()

    def say(self, message: str) -> None:
        self._said.append(message)
        self._wake.set()

    # What the client says --------------------------------------------------------------------------------------------

    async def on_message(self, message: str | bytes) -> None:
        try:
            await self._obey(_parse(message))
        except (ValueError, GpufitError) as error:
            self.say(to_json(wire.ProblemMessage(message=str(error))))

    async def _obey(self, asked: wire.FollowFrom | str) -> None:
        if isinstance(asked, str):
            self._unfollow(asked)
            return
        self._unfollow(asked.job)
        if len(self._followed) >= MOST_FOLLOWED:
            raise ValueError(f"At most {MOST_FOLLOWED} journals can be followed at once.")
        settings = self._service.settings
        _, paths = await aside(lambda: find_mine(settings(), asked.job), self._service.threads)
        self._unfollow(asked.job)  # asked for twice while we looked
        followed = self._followed[asked.job] = _Followed(Following(paths, asked.after), self._wake, asked.question)
        self._service.changes.watch(paths.root, followed.changed)

    def _unfollow(self, id: str) -> None:
        followed = self._followed.pop(id, None)
        if followed is not None:
            self._service.changes.unwatch(followed.root, followed.changed)
            followed.leave()

    # The one task that sends -----------------------------------------------------------------------------------------

    async def _send(self) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._send_all()
        except WebSocketClosedError:
            pass
        except TimeoutError:
            self.log.info("gpufit: a client that took nothing for %s s is disconnected", PATIENCE)
            self.close(1013, "too slow")
        except Exception:
            self.log.exception("gpufit: a client could not be served")
            self.close(1011, "see the log of the server")

    async def _send_all(self) -> None:
        while self._said:
            await self._send_one(self._said.popleft())
        if self._status:
            message, self._status = self._status, ""
            await self._send_one(message)
        for id, followed in list(self._followed.items()):
            if followed.unread and not followed.gone:
                await self._send_entries(id, followed)

    async def _send_entries(self, id: str, followed: _Followed) -> None:
        followed.unread = False
        told = followed.told
        async with followed.reading:
            stretch, message = await aside(lambda: followed.read(id), self._service.threads)
        if followed.gone:
            followed.close()
            return
        if followed.more:
            followed.changed()  # others have their turn first
        if stretch.entries or stretch.ended != told:
            followed.told = stretch.ended
            await self._send_one(message)

    async def _send_one(self, message: str) -> None:
        # Tornado's answer comes when the bytes have left for the network, so a client that does not read is noticed.
        async with asyncio.timeout(PATIENCE):
            await self.write_message(message)


class _Followed:
    """A journal that a client follows."""

    def __init__(self, following: Following, wake: asyncio.Event, question: int) -> None:
        self._following = following
        self._wake = wake
        self._question = question
        self.unread = True
        self.gone = False
        self.reading = asyncio.Lock()
        self.told = False  # that it has ended
        self.state = ""  # as the last reading had it
        wake.set()

    @property
    def root(self) -> Path:
        return self._following.paths.root

    @property
    def more(self) -> bool:
        return self._following.more

    def changed(self) -> None:
        self.unread = True
        self._wake.set()

    def read(self, id: str) -> tuple[wire.WireJournal, str]:
        """The next stretch and its JSON; in a thread."""
        stretch = self._following.read(STRETCH, lives=self.state != "" and self.state not in OVER)
        entries, ended = stretch.entries, stretch.ended
        return stretch, to_json(wire.EntriesMessage(job=id, entries=entries, ended=ended, question=self._question))

    def leave(self) -> None:
        """Whoever followed does no more; a thread that reads just now has the file still."""
        self.gone = True
        if not self.reading.locked():
            self._following.close()

    def close(self) -> None:
        self._following.close()


def _parse(message: str | bytes) -> wire.FollowFrom | str:
    """What to follow, or the id of what to follow no more."""
    if len(message) > LONGEST:
        raise ValueError("The message is too long.")
    try:
        match json.loads(message):
            case {"follow": {"job": str(id), **more}}:
                after, question = more.get("after", 0), more.get("question", 0)
                if type(after) is int and type(question) is int:
                    return wire.FollowFrom(job=id, after=after, question=question)
            case {"unfollow": str(id)}:
                return id
    except (RecursionError, json.JSONDecodeError, UnicodeDecodeError):
        pass
    raise ValueError('Send {"follow": {"job": "<id>", "after": 0}} or {"unfollow": "<id>"}.')
