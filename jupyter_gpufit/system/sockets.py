"""Waiting for a socket that one may give up at any moment, as a cell does whose job has ended."""

from __future__ import annotations

import anyio
from anyio.abc import SocketAttribute, UNIXSocketStream


async def something_comes(stream: UNIXSocketStream) -> None:
    """Wait until there is something to receive, or nothing more will come; receiving does not wait then.

    To receive at once waits for a Future that the loop sets. Cancelled in the very turn in which it comes it is set all
    the same, and asyncio prints an InvalidStateError with its traceback: below the user's cell.
    """
    await anyio.wait_readable(stream.extra(SocketAttribute.raw_socket))
