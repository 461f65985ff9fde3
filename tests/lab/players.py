"""Real processes that play a part in a test: they hold, wait, stop and are killed, each as a user of its own."""

from __future__ import annotations

import os
import select
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from jupyter_gpufit.devices.device import Device
from jupyter_gpufit.lab import Lab, Request, claim, published, queue

PATIENCE = 300.0  # seconds: for what must come; never a measure of speed


@dataclass
class Player:
    """A process that plays its part, as its parent sees it."""

    pid: int
    heard: int
    orders: int
    text: bytes = b""
    ended: bool = False

    def hear(self, wanted: str = "", within: float = PATIENCE) -> str:
        """The next line it says that begins with `wanted`."""
        deadline = time.monotonic() + within
        while not (line := self._line(deadline)).startswith(wanted):
            pass
        return line

    def _line(self, deadline: float) -> str:
        while b"\n" not in self.text:
            if not select.select([self.heard], [], [], max(0, deadline - time.monotonic()))[0]:
                raise AssertionError(f"process {self.pid} has nothing to say")
            more = os.read(self.heard, 1 << 16)
            if not more:
                raise AssertionError(f"process {self.pid} ended")
            self.text += more
            if b"Traceback" in self.text:
                raise AssertionError(self._rest())
        line, _, self.text = self.text.partition(b"\n")
        return line.decode()

    def _rest(self) -> str:
        while more := os.read(self.heard, 1 << 16):
            self.text += more
        return self.text.decode()

    def go_on(self) -> None:
        os.write(self.orders, b"\n")

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait_until_stopped(self) -> None:
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"it ended instead of stopping: {self._rest()}"

    def wait(self) -> None:
        """Until it has ended by itself, without an error."""
        rest = self._rest()
        _, status = os.waitpid(self.pid, 0)
        self._close()
        assert status == 0, rest

    def kill(self) -> None:
        """SIGKILL, and wait; safe to repeat."""
        if not self.ended:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self._close()

    def _close(self) -> None:
        self.ended = True
        os.close(self.heard)
        os.close(self.orders)


@dataclass(frozen=True)
class Stage:
    """The player's side: what it says arrives at once, and it can wait for an order."""

    out: int
    orders: int

    def say(self, line: str) -> None:
        os.write(self.out, line.encode() + b"\n")

    async def order(self) -> None:
        await anyio.wait_readable(self.orders)
        os.read(self.orders, 1)


Part = Callable[[Stage], None]


def start(players: list[Player], part: Part, *, uid: int | None = None, pause: str = "") -> Player:
    """Play `part` in a process of its own, as the user `uid`; it stops at the point `pause`."""
    heard, out = os.pipe()
    orders, commands = os.pipe()
    pid = os.fork()
    if pid == 0:
        if pause:
            _stop_at(pause)
        _play(part, Stage(out, orders), uid)
    os.close(out)
    os.close(orders)
    player = Player(pid, heard, commands)
    players.append(player)
    return player


def _stop_at(point: str) -> None:
    """Have this process stop itself between two steps of the ledger or the queue: before the next one's function."""
    kind, _, step = point.rpartition(":")

    def stops(function: Callable[..., Any], of_kind: Callable[..., bool] = lambda *_: True) -> Callable[..., Any]:
        def stopping(*arguments: Any, **named: Any) -> Any:
            if of_kind(*arguments):
                os.kill(os.getpid(), signal.SIGSTOP)
            return function(*arguments, **named)

        return stopping

    def by_path(path: Path, *_: object) -> bool:
        return path.name.startswith(kind)

    match step:
        case "created":
            published._fill = stops(published._fill, lambda fd, made, *_: made == kind)
        case "written":
            fill = published._fill

            def fills(fd: int, made: Any, *rest: Any) -> None:
                os.fchmod = stops(chmod, lambda *_: made == kind)
                fill(fd, made, *rest)

            chmod, published._fill = os.fchmod, fills  # type: ignore[assignment]
        case "locked":
            os.link = stops(os.link, lambda source, name, *_: name.startswith(kind))
        case "linked":
            published.Published = stops(published.Published, by_path)  # type: ignore[assignment, misc]
        case "closed":
            published.is_dead = stops(published.is_dead, by_path)
        case "mutex":
            queue._Queueing._take = stops(queue._Queueing._take)  # type: ignore[method-assign]
        case _:
            raise AssertionError(point)


def _play(part: Part, stage: Stage, uid: int | None) -> None:
    code = 1
    try:
        if uid is not None:
            become(uid)
        part(stage)
        code = 0
    except BaseException:
        stage.say(traceback.format_exc())
    finally:
        os._exit(code)  # whatever happens, it never goes on as a second pytest


def become(uid: int) -> None:
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)


def holder(lab: Lab, request: Request, devices: Sequence[Device]) -> Part:
    """Wait, claim, say where, and hold until ordered to give back."""

    async def look() -> Sequence[Device]:
        return devices

    def part(stage: Stage) -> None:
        async def hold() -> None:
            async with claim(lab, request, look, lambda why: stage.say(f"waits: {why}")) as granted:
                stage.say("holds " + " ".join(device.label for device in granted.devices))
                await stage.order()
            stage.say("gave back")

        anyio.run(hold)

    return part
