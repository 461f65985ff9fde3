"""A network between a browser and a server that a test can cut: then nothing passes, and neither side is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import anyio
from anyio.abc import SocketAttribute, SocketStream, TaskStatus
from anyio.from_thread import BlockingPortal, start_blocking_portal


class Relay:
    """What is sent while it is cut is on its way, and arrives when it is mended."""

    def __init__(self, portal: BlockingPortal, to: int) -> None:
        self._portal = portal
        self._to = to  # the server's port
        self._mended = portal.call(anyio.Event)
        self.mend()
        self._serving, self.port = portal.start_task(self._serve)

    def cut(self) -> None:
        self._mended = self._portal.call(anyio.Event)

    def mend(self) -> None:
        self._portal.call(self._mended.set)

    def end(self) -> None:
        self._serving.cancel()

    async def _serve(self, *, task_status: TaskStatus[int]) -> None:
        async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
            task_status.started(listener.extra(SocketAttribute.local_port))
            await listener.serve(self._relay)

    async def _relay(self, here: SocketStream) -> None:
        await self._mended.wait()
        async with here, await anyio.connect_tcp("127.0.0.1", self._to) as there, anyio.create_task_group() as group:
            group.start_soon(self._pass_on, here, there)
            group.start_soon(self._pass_on, there, here)

    async def _pass_on(self, source: SocketStream, sink: SocketStream) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the other side has gone meanwhile
            async for data in source:
                await self._mended.wait()
                await sink.send(data)
        await self._mended.wait()  # nor does it tell of an end
        await sink.aclose()


@contextmanager
def relaying(to: int) -> Iterator[Relay]:
    with start_blocking_portal() as portal:
        relay = Relay(portal, to)
        try:
            yield relay
        finally:
            relay.end()
