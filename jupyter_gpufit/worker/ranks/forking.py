"""Forking the ranks, and what is known of each that was forked.

They are forked by a thread that has computed nothing. Where a thread has computed with several threads, a child that it
forks waits for ever in its own first such computation: libgomp keeps the names of a thread's helpers with that thread,
and in the child there are none. Who forks is the child's main thread. And that thread lives as long as the ranks do,
for the system ends them with the thread that forked them (system/processes.py: die_with_parent).
"""

from __future__ import annotations

import _thread
import contextvars
import os
import select
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass

import torch
from torch.utils import _device

from ...surroundings import modes

Signal = int


class ForkingThread:
    """To be ended after those that it forked."""

    def __init__(self) -> None:
        self._ended = threading.Event()

    def run(self, fork: Callable[[], None]) -> None:
        """Call it there, once, and wait until it returns; of what a thread has of its own, it has ours."""
        done: Future[None] = Future()
        context, settings = contextvars.copy_context(), modes.modes()

        def work() -> None:
            try:
                context.run(_with_settings, settings, fork)
            except BaseException as error:
                done.set_exception(error)
            else:
                done.set_result(None)
            self._ended.wait()

        # Not a Thread of Python's: the child makes a real main thread of this one, and no cell meets it in a list.
        _thread.start_new_thread(work, ())
        done.result()

    def end(self) -> None:
        self._ended.set()


def _with_settings(settings: modes.Modes, fork: Callable[[], None]) -> None:
    """Some are of each thread: whether gradients are kept, what numpy says of a division by zero."""
    here = modes.modes()
    modes.put({name: one for name, one in settings.items() if here.get(name) != one})
    default = vars(_device)
    if (device := default["CURRENT_DEVICE"]) is not None:  # its name is all threads', and it holds in one alone
        default["CURRENT_DEVICE"] = None
        torch.set_default_device(device)
    fork()


@dataclass
class ForkedRank:
    """A child of ours, known by more than its number: the cell may wait for children, and numbers are used again."""

    pid: int
    fd: int  # a pidfd; -1: it had ended, and somebody had waited for it, before there could be one

    @classmethod
    def of(cls, pid: int) -> ForkedRank:
        try:
            return cls(pid, os.pidfd_open(pid))
        except ProcessLookupError:
            return cls(pid, -1)

    def signal(self, number: Signal) -> None:
        if self.fd >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.fd, number)

    def ended(self, limit: float) -> int | None:
        """How it has, within so many seconds: its status, or less than 0 for a signal; None: it lives, or who knows."""
        if self.fd < 0 or not self._has_ended(limit):
            return None
        try:
            told = os.waitid(os.P_PIDFD, self.fd, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # the cell has waited for it, or wants to hear of no child
            return None
        if told is None:
            return None
        return told.si_status if told.si_code == os.CLD_EXITED else -told.si_status

    def kill(self, limit: float) -> None:
        """With all of its group; not waited for longer than so many seconds. To be called once."""
        if self.fd < 0:
            return
        with suppress(ChildProcessError):  # then the number may be another's
            os.waitid(os.P_PIDFD, self.fd, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self.signal(signal.SIGKILL)
        if self._has_ended(limit):  # else it stands in a driver: the system ends it some time
            with suppress(ChildProcessError):
                os.waitid(os.P_PIDFD, self.fd, os.WEXITED | os.WNOHANG)
        self.forget()

    def forget(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _has_ended(self, limit: float) -> bool:
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        return bool(poll.poll(limit * 1000))
