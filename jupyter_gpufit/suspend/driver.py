"""Asking the driver to suspend and restore a process, through a process of its own.

Of its own, because the one that is suspended can hardly ask; and because what asks must not be on the device itself.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from typing import IO, Any

import anyio

from ..errors import CannotSuspend
from ..system.processes import start

PATIENCE = 300.0  # seconds; 80 GiB were seen to take a quarter of a minute each way, untuned set-ups a whole one


class Driver:
    """The driver, as far as it suspends processes. Ends with `close`, or with the process that made it."""

    def __init__(self, env: Mapping[str, str], log: IO[Any] | int = subprocess.DEVNULL) -> None:
        self._asker = start("suspend", env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)

    async def probe(self, patience: float = 60.0) -> None:
        """Raise CannotSuspend where this machine's driver does no such thing."""
        await self._ask(patience, do="probe")

    async def suspend(self, pid: int, patience: float = PATIENCE) -> None:
        """Take all that the process has on its device into the host's memory; its calls of CUDA wait from now on."""
        await self._ask(patience, do="suspend", pid=pid)

    async def restore(self, pid: int, to: Mapping[str, str], patience: float = PATIENCE) -> None:
        """Put it back, each device (by UUID) to another where `to` says so; its calls wait until `unlock`."""
        await self._ask(patience, do="restore", pid=pid, to={_bare(old): _bare(new) for old, new in to.items()})

    async def unlock(self, pid: int, patience: float = PATIENCE) -> None:
        """Let the process go on."""
        await self._ask(patience, do="unlock", pid=pid)

    def close(self) -> None:
        """Safe to repeat; also in the middle of a question, which the driver may never answer."""
        self._asker.kill()
        self._asker.wait()
        for pipe in (self._asker.stdin, self._asker.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                pass  # a question that was never read

    async def _ask(self, patience: float, **question: object) -> None:
        why = f"no answer within {patience:.0f} s"
        with anyio.move_on_after(patience):
            why = await anyio.to_thread.run_sync(self._exchange, json.dumps(question), abandon_on_cancel=True)
        if why:
            raise CannotSuspend(f"{question['do']}: {why}" if question["do"] != "probe" else why)

    def _exchange(self, question: str) -> str:
        assert self._asker.stdin is not None and self._asker.stdout is not None
        try:
            self._asker.stdin.write(question.encode() + b"\n")
            self._asker.stdin.flush()
            answer: str = json.loads(self._asker.stdout.readline())
        except (OSError, ValueError):  # closed, or died: of the driver, or of somebody
            return "the process that asks the driver has ended"
        return answer


def _bare(uuid: str) -> str:
    """As the driver wants it; NVML says it with its kind before it."""
    return uuid.removeprefix("GPU-")
