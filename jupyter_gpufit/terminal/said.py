"""What `gpufit run` says on stderr: lines that stay, and one that is rewritten where a person looks on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

import anyio

ESC = "\x1b"
REFRESH = 5.0  # seconds; what waits "for 3 min 5 s" must not stand still


class Said:
    """Our words beside the command's own: each line begins with our name."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._rewrites = stream.isatty()
        self._passing: Callable[[float], str] | None = None
        self._rows = 0  # of the screen that the line takes which is rewritten

    def line(self, text: str) -> None:
        """Say something for good."""
        self._passing = None
        self._write(f"{self._erased()}gpufit: {text}\n")

    def passing(self, text: Callable[[float], str]) -> None:
        """Say something until there is news; `text` tells it for a moment in seconds since 1970."""
        self._passing = text
        if self._rewrites:
            self._show()
        else:
            self._write(f"gpufit: {text(time.time())}\n")

    async def refresh(self) -> None:
        """Keep the line that is rewritten up to date, until cancelled."""
        while self._rewrites:
            await anyio.sleep(REFRESH)
            self._show()

    def _show(self) -> None:
        if self._passing is not None:
            text = f"gpufit: {self._passing(time.time())}"
            erased, self._rows = self._erased(), 1 + (len(text) - 1) // self._width()
            self._write(erased + text)

    def _erased(self) -> str:
        """Back to where the line that is rewritten begins, which may have wrapped, and nothing from there on."""
        up, self._rows = max(0, self._rows - 1), 0
        return f"\r{f'{ESC}[{up}A' if up else ''}{ESC}[J" if self._rewrites else ""

    def _width(self) -> int:
        with suppress(OSError):
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        return 80

    def _write(self, text: str) -> None:
        with suppress(OSError):  # whoever read it is gone; the command goes on
            self._stream.write(text)
            self._stream.flush()
