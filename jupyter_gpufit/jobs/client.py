"""Speaking to a worker over its control socket."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.abc import UNIXSocketStream

from ..errors import Unreachable, VersionDiffers
from ..system.sockets import something_comes
from ..system.version import version
from .job import Job
from .protocol import PROTOCOL, Answer, WorkerRequest, WorkerVerb
from .record import Record

PATIENCE = 5.0  # seconds; an answer needs no user code, so it comes in milliseconds
LONGEST_ANSWER = 4 << 20  # bytes
PATIENCE_TO_MOVE = 30.0  # seconds; it is claimed before it is answered, and the driver may take its time


@dataclass
class Connection:
    """An open control channel."""

    job: Job
    stream: UNIXSocketStream

    async def ask(self, verb: WorkerVerb, to: str = "") -> Answer:
        """One question, one answer."""
        patience = PATIENCE_TO_MOVE if verb == "move" else PATIENCE
        with self._patiently(patience):
            with anyio.fail_after(patience):
                await self.stream.send(WorkerRequest(verb, to=to).encode())
                return await self._answer()

    async def outcome(self) -> dict[str, Any]:
        """How the job ends; waits for that."""
        with self._patiently():
            await self.stream.send(WorkerRequest("outcome").encode())
            return (await self._answer()).data

    async def collect(self) -> tuple[list[int], list[int]] | None:
        """The descriptors of the job's result and what they are, or None when there is none; the caller closes them."""
        answer = await self.ask("collect")
        if not answer.ok:
            return None
        with self._patiently():
            counts = [int(count) for count in answer.data["counts"]]
            with anyio.fail_after(PATIENCE):
                await self.stream.send(b"\n")
                await something_comes(self.stream)
                _, descriptors = await self.stream.receive_fds(1, sum(counts))
        for fd in descriptors:
            os.set_inheritable(fd, False)
        return list(descriptors), counts

    @contextmanager
    def _patiently(self, patience: float = PATIENCE) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            raise Unreachable(self.job.name, f"no answer within {patience:.0f} s") from error
        except (ValueError, KeyError, TypeError) as error:
            raise Unreachable(self.job.name, "what it answers cannot be read") from error
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError) as error:
            raise Unreachable(self.job.name, "it closed the connection") from error

    async def _answer(self) -> Answer:
        answer = Answer.decode(await self._line())
        if not answer.ok and answer.data.get("protocol", PROTOCOL) != PROTOCOL:
            raise VersionDiffers(self.job.name, str(answer.data.get("version", "?")), version())
        return answer

    async def _line(self) -> bytes:
        received = b""
        while not received.endswith(b"\n"):
            if len(received) > LONGEST_ANSWER:
                raise ValueError("it has no end")
            await something_comes(self.stream)
            received += await self.stream.receive()
        return received


@asynccontextmanager
async def connect(job: Job, record: Record) -> AsyncIterator[Connection]:
    """Open the control channel of the worker that wrote `record`."""
    if not record.socket:
        raise Unreachable(job.name, "it has not opened its socket yet")
    try:
        with anyio.fail_after(PATIENCE):
            stream = await anyio.connect_unix(record.socket)
    except (OSError, TimeoutError) as error:
        raise Unreachable(job.name, str(error) or "no answer") from error
    async with stream:
        yield Connection(job, stream)


async def ask(job: Job, record: Record, verb: WorkerVerb, to: str = "") -> Answer:
    """One question on a connection of its own."""
    async with connect(job, record) as connection:
        return await connection.ask(verb, to)
