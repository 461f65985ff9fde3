"""Hears from Jupyter's server when a notebook or its folder is renamed: its jobs go with it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from ..jobs.renamed import note_renamed
from ..settings import Settings
from ..system.background import aside

log = logging.getLogger(__name__)

EVENTS = "https://events.jupyter.org/jupyter_server/contents_service/v1"


class Renames:
    """What the server's event logger calls; `path_of` knows where a file of the server's tree stands on the disk."""

    def __init__(
        self, settings: Callable[[], Settings], path_of: Callable[[str], str], changed: Callable[[], None]
    ) -> None:
        self._settings, self._path_of, self._changed = settings, path_of, changed
        self._in_turn = asyncio.Lock()  # fair: a file is renamed before the folder to which it was moved is

    async def hear(self, logger: object, schema_id: str, data: Mapping[str, Any]) -> None:
        if data.get("action") != "rename" or "source_path" not in data:
            return
        before, now = self._path_of(str(data["source_path"])), self._path_of(str(data["path"]))
        try:
            async with self._in_turn:
                noted = await aside(lambda: note_renamed(self._settings(), before, now))
            if noted:
                self._changed()
        except Exception:  # the outermost frame: nobody else would say it
            log.warning("The jobs of %s do not know that it is %s now", before, now, exc_info=True)
