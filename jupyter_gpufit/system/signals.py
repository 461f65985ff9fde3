"""The signals sent to this process, and who sent them.

A signal handler would not do: it cannot tell Ctrl-C, which the terminal sends to every process in front of it, from a
kill that was meant for us alone. So the signals are blocked, and a thread waits for them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass

from .users import user_name

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def name_of(number: int) -> str:
    """How people call it; of the real-time ones only the first and the last have a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@dataclass(frozen=True)
class Sent:
    """One signal."""

    number: int
    by_terminal: bool  # by the kernel, to the whole foreground process group
    stranger: str  # the other user who sent it ("root"), or empty


class Signals:
    """To be made in the main thread before any other thread is: those started later leave the signals to us."""

    def __init__(self) -> None:
        # What we were started to ignore (nohup) the command ignores, too.
        self._heard = {number for number in FORWARDED if signal.getsignal(number) is not signal.SIG_IGN}
        signal.pthread_sigmask(signal.SIG_BLOCK, self._heard)

    async def sent(self) -> AsyncIterator[Sent]:
        """What comes, until cancelled; to be called once."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[Sent] = asyncio.Queue()

        def listen() -> None:
            while True:
                info = signal.sigwaitinfo(self._heard)
                sent = Sent(info.si_signo, info.si_code > 0, _stranger(info))
                try:
                    loop.call_soon_threadsafe(queue.put_nowait, sent)
                except RuntimeError:  # the loop has ended, and so do we in a moment
                    return

        threading.Thread(target=listen, name="gpufit-signals", daemon=True).start()
        while True:
            yield await queue.get()


def _stranger(info: signal.struct_siginfo) -> str:
    return user_name(info.si_uid) if info.si_code <= 0 and info.si_uid != os.getuid() else ""
