"""The kernel's side of a process that forks workers: asks for them, and hears how they end."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from ..jobs.forking import KernelModules, News, Wanted, ask, told
from ..jobs.handover import FORKS
from ..system.files import nameless
from ..system.packages import stamp
from .local import Started, WaitingWorker, begin_process

MOST_NEEDED = 60  # packages that are named with a wish, which has to be short


@dataclass
class Forked:
    """A worker that is not our child: whose child it is tells how it ended."""

    parent: ForkingProcess
    number: int
    pid: int = 0  # 0: not there yet
    code: int | None = None
    unheard: bool = False  # nobody will tell how it ended, or nobody wants to know

    def wait(self, timeout: float | None = None) -> int | None:
        return self.parent.wait(self, timeout)

    def terminate(self) -> None:
        self.unheard = True
        self.parent.end(self.number)


class ForkingProcess:
    """Has torch imported; gives a worker at once, any number of times."""

    def __init__(self, env: Mapping[str, str], on_spoiled: Callable[[str], None] = lambda package: None) -> None:
        """`on_spoiled`: called in a thread of its own, with a package that it could not import ahead."""
        self.env = dict(env)
        self._on_spoiled = on_spoiled
        self._spoiled = False
        self._told: set[str] = set()  # modules
        self._packages = stamp()
        self._changed = threading.Condition()
        self._workers: dict[int, Forked] = {}
        self._asked = 0
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, nameless() as log:
            self.process: subprocess.Popen[bytes] = begin_process(theirs, log, env, arguments=[FORKS])
        threading.Thread(target=self._listen, name="gpufit-forks", daemon=True).start()

    def usable(self, env: Mapping[str, str], but_for: Container[str] = ()) -> bool:
        """Alive, with this environment (OMP_NUM_THREADS and its like are read at import), and with today's packages."""
        same = stamp() == self._packages and _less(env, but_for) == _less(self.env, but_for)
        return same and not self._spoiled and self.process.poll() is None

    def import_ahead(self, imported: KernelModules) -> None:
        """Have them there in the workers to come, once there is time."""
        new = tuple(name for name in imported.modules if name not in self._told)
        if new:
            self._told.update(new)
            try:
                with replace(imported, modules=new).to_file() as file:
                    ask(self._channel, Wanted(0, imports=True), file.fileno(), waits=False)
            except OSError:  # it has ended, or has no time to listen: then with the next ones
                self._told.difference_update(new)

    def worker(self, score: str = "", needs: Iterable[str] = ()) -> WaitingWorker:
        """One more; `score`: what it is to be for the system where memory runs out; `needs`: packages."""
        ours, theirs = socket.socketpair()
        log = nameless()
        with theirs, self._changed:
            self._asked += 1
            forked = self._workers[self._asked] = Forked(self, self._asked)
            try:
                ask(
                    self._channel,
                    Wanted(forked.number, score, needs=tuple(needs)[:MOST_NEEDED]),
                    theirs.fileno(),
                    log.fileno(),
                )
            except OSError:
                forked.code = 1  # as the one who gives it a job will see
        return WaitingWorker(Started(forked, log), ours)

    def dismiss(self) -> None:
        """No more are wanted; it stays only until it has told how those who are there ended."""
        with self._changed:
            if all(forked.code is not None for forked in self._workers.values()):
                self.process.terminate()  # it may be in the middle of an import
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_WR)

    def end(self, number: int) -> None:
        with suppress(OSError):
            ask(self._channel, Wanted(number, ends=True))

    def wait(self, forked: Forked, timeout: float | None) -> int | None:
        with self._changed:
            if not self._changed.wait_for(lambda: forked.code is not None or forked.unheard, timeout):
                raise subprocess.TimeoutExpired("worker", timeout or 0)
            return forked.code

    def _listen(self) -> None:
        while (news := self._next()) is not None:
            if news.spoiled_by:
                self._spoiled = True
                self._on_spoiled(news.spoiled_by)
                continue
            with self._changed:
                forked = self._workers[news.number]
                forked.pid, forked.code = news.pid, news.code
                if news.code is not None:
                    del self._workers[news.number]
                self._changed.notify_all()
        code = self.process.wait()
        with self._changed:
            for forked in self._workers.values():
                forked.unheard = True
                if not forked.pid:
                    forked.code = code  # it never began
            self._changed.notify_all()
            self._channel.close()

    def _next(self) -> News | None:
        try:
            return told(self._channel)
        except OSError:
            return None


def _less(env: Mapping[str, str], but_for: Container[str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name not in but_for}
