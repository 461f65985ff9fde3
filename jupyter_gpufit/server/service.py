"""What all clients of one Jupyter server share: a reading, a watch, the actions under way, and a few threads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from anyio import CapacityLimiter

from ..actions.status import Status, StatusReader
from ..errors import GpufitError
from ..lab import open_lab
from ..settings import Settings, load_settings
from ..system.changes import Changes
from . import wire
from .actions import Actions
from .curves import CurveReader
from .encode import to_json
from .moved import MovedNotebooks
from .readings import Readings, ReadingWatch

THREADS = 4  # that read journals; a home directory that hangs takes no more than these


class Client(Protocol):
    """Somebody with a WebSocket; see events.py."""

    def take(self, status: wire.WireStatus, message: str | None) -> None: ...
    def say(self, message: str) -> None: ...


class Service:
    """One per server."""

    def __init__(self, settings: Callable[[], Settings] = load_settings) -> None:
        self.settings = settings
        self.changes = Changes()
        self.curves = CurveReader()
        self.threads = CapacityLimiter(THREADS)
        self.readings = Readings(self._read)
        self.actions = Actions(settings, self._tell, self._stirred)
        self._reader = StatusReader()
        self._moved = MovedNotebooks()
        self._watch = ReadingWatch(self.readings, lambda: self.actions.under_way)
        self._clients: set[Client] = set()
        self._lab: Path | None = None  # as the last reading found it
        self._watched: Path | None = None

    def join(self, client: Client) -> None:
        self._clients.add(client)
        self._watch.join(client)
        self._watch_lab()

    def leave(self, client: Client) -> None:
        self._clients.discard(client)
        self._watch.leave(client)
        self._watch_lab()

    def read_anew(self) -> None:
        """A job's own file has changed, which is read once: read all of them again."""
        self._reader = StatusReader()
        self._stirred()

    def _read(self) -> Status:
        """In a thread, one at a time."""
        settings = self.settings()
        try:
            self._lab = open_lab(settings).path
        except (GpufitError, OSError):
            self._lab = None
        status = self._reader.read(settings)
        if self._moved.look(settings, status.jobs):
            self._reader = StatusReader()
            status = self._reader.read(settings)
        return status

    def _watch_lab(self) -> None:
        """Watch the lab while somebody looks; one that is made meanwhile is found by the next client."""
        wanted = self._lab if self._clients else None
        if wanted == self._watched:
            return
        if self._watched is not None:
            self.changes.unwatch(self._watched, self._watch.nudge)
        if wanted is not None:
            self.changes.watch(wanted, self._watch.nudge)
        self._watched = wanted

    def _tell(self, id: str, verb: str, text: str, failed: bool) -> None:
        message = to_json(wire.SaidMessage(job=id, action=verb, text=text, failed=failed))
        for client in self._clients:
            client.say(message)

    def _stirred(self) -> None:
        self.readings.expire()
        self._watch_lab()
        if self._clients:
            self._watch.nudge_again_and_again()
