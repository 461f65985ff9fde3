"""The process that estimates, from the side that asks: started, asked as often as needed, ended with all its own."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import IO

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from ...errors import NoEstimate
from ...system import processes
from ...system.files import nameless
from .ask import Ask, EstimatedProgram, TraceAnswer

MOST_ANSWER = 1 << 28  # bytes
GRACE = 30.0  # seconds beyond the trace's own limit: for imports, and for the replay


@dataclass(frozen=True)
class Tracer:
    """A running one."""

    process: Process
    answers: BufferedByteReceiveStream
    log: IO[bytes]

    async def ask(self, ask: Ask) -> TraceAnswer:
        """One estimate; raise NoEstimate when the process is gone or hangs."""
        try:
            with anyio.fail_after(ask.patience + GRACE):
                assert self.process.stdin is not None
                await self.process.stdin.send(ask.encode())
                return TraceAnswer.decode(await self.answers.receive_until(b"\n", MOST_ANSWER))
        except TimeoutError as error:
            raise NoEstimate(f"nothing came back in {ask.patience + GRACE:.0f} s") from error
        except (anyio.BrokenResourceError, anyio.IncompleteRead, anyio.ClosedResourceError, OSError) as error:
            raise NoEstimate(self._last_words() or "its process ended unexpectedly") from error

    def _last_words(self) -> str:
        self.log.seek(0)
        return self.log.read().decode(errors="replace").strip()[-2000:]


@asynccontextmanager
async def tracing(program: EstimatedProgram, descriptors: Sequence[int] = ()) -> AsyncIterator[Tracer]:
    """Start a process for a program; `descriptors` are those it names."""
    with nameless() as log:
        process = await processes.start_asking("estimate", descriptors=descriptors, stderr=log)
        try:
            assert process.stdin is not None and process.stdout is not None
            with suppress(anyio.BrokenResourceError):  # its last words are read when it is asked
                await process.stdin.send(program.encode())
            yield Tracer(process, BufferedByteReceiveStream(process.stdout), log)
        finally:
            with anyio.CancelScope(shield=True):
                _end(process)
                await process.aclose()


def _end(process: Process) -> None:
    # The forked children end with it: they asked the system for that.
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
