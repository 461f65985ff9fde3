"""Stands in for cuda.core's: keeps in files what the driver would keep, and fails or never answers where it is told to.

In the directory STAND_IN_DRIVER: `state-<pid>`, the process's state; `said`, each call as a line; `fails`, a line for
each call that shall fail, and `hangs`, for each that shall never return.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

STATES = {  # of each call: in which state it must find the process, and in which it leaves it
    "lock": ("running", "locked"),
    "checkpoint": ("locked", "checkpointed"),
    "restore": ("checkpointed", "locked"),
    "unlock": ("locked", "running"),
}


class Process:
    """A process that the driver knows."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._folder = Path(os.environ["STAND_IN_DRIVER"])

    @property
    def state(self) -> str:
        try:
            return (self._folder / f"state-{self.pid}").read_text()
        except FileNotFoundError:
            return "running"

    def lock(self, timeout_ms: int = 0) -> None:
        assert timeout_ms > 0  # without a limit it may wait for ever
        self._call("lock")

    def checkpoint(self) -> None:
        self._call("checkpoint")

    def restore(self, gpu_mapping: Mapping[str, str] | None = None) -> None:
        self._call("restore", "".join(f" {old}={new}" for old, new in (gpu_mapping or {}).items()))

    def unlock(self) -> None:
        self._call("unlock")

    def _call(self, name: str, with_what: str = "") -> None:
        os.kill(self.pid, 0)
        with (self._folder / "said").open("a") as said:
            said.write(f"{name}{with_what}\n")
        if name in self._told("hangs"):
            signal.pause()
        if name in self._told("fails"):
            raise RuntimeError("CUDA_ERROR_INVALID_VALUE: it was told to fail")
        wanted, then = STATES[name]
        if self.state != wanted:
            raise RuntimeError(f"CUDA_ERROR_ILLEGAL_STATE: {name} of a process that is {self.state}")
        (self._folder / f"state-{self.pid}").write_text(then)

    def _told(self, what: str) -> list[str]:
        try:
            return (self._folder / what).read_text().split()
        except FileNotFoundError:
            return []
