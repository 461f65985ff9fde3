"""The spare's own life: it has imported what every worker needs, and forks one for each cell.

It has one thread and no context of a device, so that nothing is lost by forking; what was imported is there once in
memory, however many workers run. It ends when its kernel has gone, and not before it has told how its workers ended.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ..jobs.forking import KernelModules, News, Wanted, asked, tell
from ..system.unheard import unheard
from .ahead import Ahead

QUIET = 1000  # milliseconds after a worker began before anything else is prepared: it needs the processors now


class Forks:
    """Forks workers as long as somebody may ask for one."""

    def __init__(self, channel: socket.socket, prepare: list[Callable[[], object]]) -> None:
        """`prepare`: what can be done while nobody waits; what is left of it is a worker's to do."""
        self._channel = channel
        self.prepare = prepare
        self._ahead = Ahead()
        self._said = False  # that it is spoiled
        self._workers: dict[int, tuple[int, int]] = {}  # by pidfd: number and pid
        self._poll = select.poll()
        self._poll.register(channel, select.POLLIN)

    def next(self) -> socket.socket | None:
        """Return in each worker, with the channel on which its job comes; in the spare itself None, at its end."""
        quiet = 0
        listens = True
        while listens or self._workers:
            events = self._poll.poll(quiet if self.prepare or self._ahead else None)
            if not events:
                self._prepare()
                quiet = 0
            for fd, event in events:
                if fd != self._channel.fileno():
                    self._has_ended(fd)
                elif (message := self._hear()) is None:
                    listens = False
                    self._poll.unregister(self._channel)
                    if event & (select.POLLHUP | select.POLLERR):
                        return None  # nobody hears any more how they end
                elif (channel := self._do(*message)) is not None:
                    return channel
                elif not message[0].imports:
                    quiet = QUIET
        return None

    def _prepare(self) -> None:
        if self.prepare:
            self.prepare.pop(0)()
        else:
            self._ahead.import_next()
            self._say_if_spoiled()
        gc.freeze()

    def _say_if_spoiled(self) -> None:
        if self._ahead.spoiled_by and not self._said:
            self._said = True
            self._tell(News(0, 0, spoiled_by=self._ahead.spoiled_by))

    def _hear(self) -> tuple[Wanted, list[int]] | None:
        try:
            return asked(self._channel)
        except ConnectionError:
            return None

    def _do(self, wanted: Wanted, descriptors: list[int]) -> socket.socket | None:
        if wanted.ends:
            for number, pid in self._workers.values():
                if number == wanted.number:
                    os.kill(pid, signal.SIGTERM)  # it is ours and not waited for: the pid is still its own
            return None
        if wanted.imports:
            self._ahead.want(KernelModules.from_file(descriptors[0]))
            return None
        self._ahead.import_those(wanted.needs)
        self._say_if_spoiled()
        channel, log = descriptors
        with unheard(DeprecationWarning):  # of threads: numpy's are ended before each fork
            pid = os.fork()
        if pid == 0:
            self._let_go()
            return _begin(channel, log, wanted.score, anew=bool(self._ahead.spoiled_by))
        os.close(channel)
        os.close(log)
        fd = os.pidfd_open(pid)
        self._workers[fd] = (wanted.number, pid)
        self._poll.register(fd, select.POLLIN)
        self._tell(News(wanted.number, pid))
        return None

    def _has_ended(self, fd: int) -> None:
        number, pid = self._workers.pop(fd)
        self._poll.unregister(fd)
        os.close(fd)
        self._tell(News(number, pid, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))

    def _tell(self, news: News) -> None:
        with suppress(ConnectionError):
            tell(self._channel, news)

    def _let_go(self) -> None:
        """In a worker: these are the spare's."""
        self._channel.close()
        for fd in self._workers:
            os.close(fd)
        self._workers.clear()


def _begin(channel: int, log: int, score: str, *, anew: bool) -> socket.socket:
    """What makes a process of its own of a forked one; `anew`: of one that cannot be what the spare was."""
    os.setsid()
    for standard in (1, 2):
        os.dup2(log, standard)
    os.close(log)
    if score:
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(score)
    torch, numpy = sys.modules["torch"], sys.modules.get("numpy")
    if anew or torch.cuda._is_in_bad_fork():  # something looked for a GPU when it was imported: CUDA cannot begin here
        os.set_inheritable(channel, True)
        os.execv(sys.executable, [sys.executable, "-m", "jupyter_gpufit.worker", str(channel)])
    if numpy is not None:
        numpy.random.seed()  # what nobody has seeded differs in every process
    return socket.socket(fileno=channel)
