"""The server extension: what `status.py` reads, at GET <base url>/jupyter-gpufit/api/status, with our version.

A failure to read is an answer too: its sentence stands under `problem`, where the panel shows it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable

import anyio
from anyio import to_thread
from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.serverapp import ServerApp
from jupyter_server.utils import url_path_join
from tornado.web import authenticated

from . import __version__
from .errors import GpufitError
from .settings import load_settings
from .status import Status, StatusReader

log = logging.getLogger(__name__)

FRESH = 1.0  # seconds for which one reading serves every client
PATIENCE = 5.0  # seconds a client waits for a reading


def load(app: ServerApp) -> None:
    """Add our route to a Jupyter server."""
    url = url_path_join(app.web_app.settings["base_url"], "jupyter-gpufit", "api", "status")
    reader = StatusReader()
    readings = Readings(lambda: reader.read(load_settings()))
    app.web_app.add_handlers(".*$", [(url, StatusHandler, {"readings": readings})])


class StatusHandler(APIHandler):
    """Answers with the latest reading; `Status` in labextension/src/api.ts names the keys."""

    auth_resource = "gpufit"

    def initialize(self, readings: Readings) -> None:
        self.readings = readings

    @authenticated
    @authorized
    async def get(self) -> None:
        status = await self.readings.latest()
        self.finish(json.dumps({"version": __version__, **status.to_record()}))


class Readings:
    """One reading at a time for all clients, in a thread: a driver that hangs costs one thread, not one per request."""

    def __init__(self, read: Callable[[], Status], *, fresh: float = FRESH, patience: float = PATIENCE) -> None:
        self._read = read
        self._fresh = fresh
        self._patience = patience
        self._reading: asyncio.Task[Status] | None = None
        self._ended = 0.0  # time.monotonic() when it ended

    async def latest(self) -> Status:
        """A reading that is fresh enough, or else the reason why there is none."""
        if self._reading is None or (self._reading.done() and time.monotonic() - self._ended > self._fresh):
            self._reading = asyncio.create_task(self._read_in_thread())
        with anyio.move_on_after(self._patience):
            return await asyncio.shield(self._reading)
        return _nothing(
            f"The devices have not answered for {self._patience:.0f} s. If this stays so, `nvidia-smi` in a terminal"
            " tells whether the NVIDIA driver hangs."
        )

    async def _read_in_thread(self) -> Status:
        try:
            return await to_thread.run_sync(self._read, abandon_on_cancel=True)
        except GpufitError as error:
            return _nothing(str(error))
        except Exception as error:  # this is a front: whatever happens, the panel says so
            log.exception("The status could not be read")
            return _nothing(f"The status could not be read ({error!r}). The log of the Jupyter server says more.")
        finally:
            self._ended = time.monotonic()


def _nothing(problem: str) -> Status:
    return Status((), (), problem, time.time())
