"""What a neighbour on the same machine does."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Callable
from pathlib import Path

import anyio

from jupyter_gpufit.lab import Lab
from jupyter_gpufit.lab.ledger import LedgerReader
from tests.lab.players import Player, Stage, start
from tests.lab.values import slots

ONE = slots(4)


def does(players: list[Player], lab: Lab, uid: int, deed: Callable[[Path], object]) -> Player:
    """Let somebody do something in the lab, and stay alive with whatever they locked."""

    def part(stage: Stage) -> None:
        kept = deed(lab.path)
        stage.say("done")
        anyio.run(stage.order)
        del kept

    player = start(players, part, uid=uid)
    player.hear("done")
    return player


def locked_file(lab: Path, called: str, text: bytes, mode: int = 0o644) -> int:
    fd = os.open(lab / called, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
    os.fchmod(fd, mode)
    os.write(fd, text)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd


def who_claims(lab: Lab) -> list[int]:
    return [claim.uid for claim in LedgerReader(lab.path).read().claims]


TWO = slots(4, 4)


def as_a_user(players: list[Player], uid: int, asks: Callable[[], str]) -> str:
    return start(players, lambda stage: stage.say(asks()), uid=uid).hear()


def _kill_all_of(uid: int) -> None:
    """Processes that a neighbour left; a made-up uid has no others."""
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and entry.stat().st_uid == uid:
                os.kill(int(entry.name), signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            continue
