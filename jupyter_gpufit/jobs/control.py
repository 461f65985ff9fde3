"""The control socket of a worker: an anyio server on a 0600 Unix socket, in a thread beside the user's code.

It answers while the cell blocks the main thread, and for every front alike: kernel, server extension and command line.
A deployed model answers by it, too.
"""

from __future__ import annotations

import math
import os
import socket as socket_module
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import anyio
from anyio.abc import SocketAttribute, UNIXSocketStream

from ..system.sockets import something_comes
from ..system.version import version
from .protocol import IN_EVERY_PROTOCOL, PROTOCOL, WORKER_VERBS, Answer, Question, WorkerRequest

LONGEST_REQUEST = 1 << 20  # bytes; a widget may be sent a file
MOST_CLIENTS = 128  # at once; each takes a descriptor, of which the cell wants some, too
FIRST_WORD = 30.0  # seconds for which one that says nothing is kept
ACCEPT_AGAIN = 0.2  # seconds after a front could not be let in


class Controlled(Protocol):
    """What a worker does when asked."""

    def state(self) -> dict[str, Any]: ...
    def interrupt(self) -> None: ...
    def end(self) -> None: ...
    def result(self) -> tuple[list[int], list[int]] | None: ...
    def collected(self) -> None: ...
    async def outcome(self) -> dict[str, Any]: ...  # once there is one
    async def ask(self, verb: Question, to: str) -> Answer: ...
    def answered(self) -> None: ...  # what was asked may now end this very socket
    def defect(self, error: Exception) -> None: ...  # of ours: to be noted where its user can find it


@dataclass
class Followers:
    """How many fronts are connected to see the job's end; the worker waits for them before it leaves."""

    count: int = 0
    clients: int = 0  # that are connected at all
    on_change: Callable[[], None] = lambda: None

    def change(self, by: int) -> None:
        self.count += by
        self.on_change()


async def serve(path: Path, worker: Controlled, followers: Followers, *, started: anyio.Event) -> None:
    """Answer requests until cancelled."""
    _remove(path)  # left by an earlier epoch of this very job, whose lock we hold
    listener = await anyio.create_unix_listener(path, mode=0o600)
    try:
        started.set()
        async with anyio.create_task_group() as clients:
            while True:
                with suppress(anyio.BrokenResourceError):  # no descriptor is free: whoever comes waits for one
                    await listener.serve(lambda client: _serve_client(client, worker, followers), clients)
                await anyio.sleep(ACCEPT_AGAIN)
    finally:
        with anyio.CancelScope(shield=True):
            await listener.aclose()
        _remove(path)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


async def _serve_client(client: Any, worker: Controlled, followers: Followers) -> None:
    """Whatever it sends, and whatever that breaks, ends nobody but this client."""
    try:
        async with client:
            if followers.clients < MOST_CLIENTS and not _other_user(client):
                followers.clients += 1
                try:
                    await _hear(client, worker, followers)
                finally:
                    followers.clients -= 1
    except Exception as error:
        worker.defect(error)


async def _hear(client: UNIXSocketStream, worker: Controlled, followers: Followers) -> None:
    follows, patience = False, FIRST_WORD
    with suppress(TimeoutError):
        try:
            while line := await _line(client, patience):
                patience = math.inf
                request = _decode(line)
                if isinstance(request, WorkerRequest) and request.verb == "follow" and not follows:
                    follows = True
                    followers.change(+1)
                await _answer(client, worker, request)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream):
            pass  # the front went away: a reload, a restart
        except OSError:
            pass  # what it asked for needs a descriptor, and none is free: it is told so by the closed connection
        finally:
            if follows:
                followers.change(-1)


def _other_user(client: UNIXSocketStream) -> bool:
    """The socket is 0600 already; root may connect, and nobody else even when modes are changed later."""
    raw = client.extra(SocketAttribute.raw_socket)
    credentials = raw.getsockopt(socket_module.SOL_SOCKET, socket_module.SO_PEERCRED, 12)
    return int.from_bytes(credentials[4:8], "little") not in (os.getuid(), 0)


async def _line(client: UNIXSocketStream, patience: float) -> bytes:
    """One request; a line comes whole in all but the strangest cases, and is put together in those."""
    received = b""
    with anyio.fail_after(patience):
        while not received.endswith(b"\n"):
            if len(received) > LONGEST_REQUEST:
                raise anyio.BrokenResourceError
            await something_comes(client)
            received += await client.receive()
    return received


def _decode(line: bytes) -> WorkerRequest | Answer:
    try:
        request = WorkerRequest.decode(line)
    except (ValueError, KeyError, TypeError):
        return Answer(False, "the request cannot be read")
    if request.protocol != PROTOCOL and request.verb not in IN_EVERY_PROTOCOL:
        why = f"protocol {request.protocol} was asked for and this worker speaks {PROTOCOL}"
        return Answer(False, why, {"protocol": PROTOCOL, "version": version()})
    if request.verb not in WORKER_VERBS:
        return Answer(False, f"there is no verb {request.verb!r}")
    return request


async def _answer(client: UNIXSocketStream, worker: Controlled, request: WorkerRequest | Answer) -> None:
    if isinstance(request, Answer):
        await client.send(request.encode())
        return
    match request.verb:
        case "state" | "follow":
            await client.send(Answer(True, data=worker.state()).encode())
        case "interrupt":
            await client.send(Answer(True).encode())
            worker.interrupt()  # after the answer: a job that has not begun ends at once, and its socket with it
        case "end":
            await client.send(Answer(True).encode())
            worker.end()
        case "collected":
            await client.send(Answer(True).encode())
            worker.collected()
        case "outcome":
            await client.send(Answer(True, data=await worker.outcome()).encode())
        case "collect":
            await _send_result(client, worker.result())
        case verb:
            await client.send((await worker.ask(verb, request.to)).encode())
            worker.answered()


async def _send_result(client: UNIXSocketStream, result: tuple[list[int], list[int]] | None) -> None:
    if result is None:
        await client.send(Answer(False, "there is no result to collect").encode())
        return
    found, counts = result
    await client.send(Answer(True, data={"counts": counts}).encode())
    # The byte is waited for: descriptors that arrive with the answer's own bytes could be split from them.
    await something_comes(client)
    await client.receive()
    await client.send_fds(b"F", list(found))
