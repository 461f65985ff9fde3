"""Users who are up to no good, each with one deed, which goes on until they are killed."""

from __future__ import annotations

import fcntl
import os
import random
import secrets
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from jupyter_gpufit.lab import stalled
from jupyter_gpufit.lab.owner import this_process
from jupyter_gpufit.lab.published import Published, publish
from jupyter_gpufit.lab.record import Hold, device_mark, encode
from jupyter_gpufit.lab.usage import append
from jupyter_gpufit.units import GiB
from tests.lab.players import Part, Stage
from tests.lab.values import request

Deed = Callable[[Path], None]
DEVICE_MARKS = {device_mark(f"cpu:{index}") for index in range(2)}
OFTEN = 0.1  # seconds between two deeds: who burns processors needs no lab for it


def hostile(lab: Path, deed: Deed) -> Part:
    def part(stage: Stage) -> None:
        stage.say("begins")
        deed(lab)

    return part


def lets_every_turn_go(lab: Path) -> None:
    """Eight tickets for all devices, each dropped just before it is passed, and entered again."""
    tickets = [publish(lab, request(None, count=2)) for _ in range(8)]
    while True:
        time.sleep(stalled.PASSED_AFTER * 0.9)
        tickets.pop(0).drop()
        tickets.append(publish(lab, request(None, count=2)))


def lets_go_before_it_is_its_turn(lab: Path) -> None:
    """Have the devices kept free for a large job, and never start it."""
    while True:
        ticket = publish(lab, request(None, count=2))
        time.sleep(stalled.PASSED_AFTER * random.uniform(0.1, 0.5))
        ticket.drop()


def changes_its_place(lab: Path) -> None:
    """Two tickets that take turns at being the first."""
    tickets = [publish(lab, request(4 * GiB)) for _ in range(2)]
    while True:
        for ticket in tickets:
            time.sleep(stalled.PASSED_AFTER * 0.8)
            ticket.path.chmod(0o644)


def keeps_the_mutex(lab: Path) -> None:
    with (lab / "mutex").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        time.sleep(1e6)


def keeps_files_under_a_lease(lab: Path) -> None:
    text = encode(request(), this_process())
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # by which the kernel says that somebody waits for the lease
    while True:
        fds = []
        for kind in "qc":
            fd = os.open(lab / f".{os.getpid()}", os.O_RDWR | os.O_CREAT, 0o644)
            fds.append(fd)
            with suppress(OSError):  # whoever locks what others have was here first
                os.write(fd, text)
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
                os.rename(lab / f".{os.getpid()}", lab / f"{kind}.{os.geteuid()}.{'0' * 16}")
        time.sleep(5)
        for fd in fds:
            os.close(fd)


def locks_what_others_have(lab: Path) -> None:
    """Be there when a holder dies, to go on holding its claim."""
    kept = []
    while True:
        for name in os.listdir(lab):
            with suppress(OSError):
                fd = os.open(lab / name, os.O_RDONLY | os.O_NONBLOCK)
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    kept.append(fd)
                except OSError:
                    os.close(fd)
        for fd in kept[:-50]:
            os.close(fd)
        del kept[:-50]
        time.sleep(OFTEN)


def floods_the_queue(lab: Path) -> None:
    tickets: list[Published] = [publish(lab, request(4 * GiB)) for _ in range(60)]
    os.kill(os.getpid(), signal.SIGSTOP)  # stopped, with all of them
    del tickets


def litters(lab: Path) -> None:
    uid, number = os.geteuid(), 0
    while True:
        for kind in "qcuw":
            number += 1
            name = lab / f"{kind}.{uid}.{number:08x}{'0' * 8}"
            with suppress(OSError):
                match number % 4:
                    case 0:
                        os.mkfifo(name)
                    case 1:
                        name.symlink_to("/dev/zero")
                    case 2:
                        name.touch(0o000)
                    case 3:
                        name.write_bytes(b"[" * 10000)
        if number % 100 == 0:
            for path in lab.glob(f"?.{uid}.*"):
                if int(path.name.rsplit(".", 1)[1][:8], 16) <= number - 4:
                    path.unlink()
        time.sleep(OFTEN)


def lies_about_its_use(lab: Path) -> None:
    while True:
        with suppress(OSError):
            append(lab, {"claim": "x", "start": 0, "until": "inf", "share": -1, "owed": {"62001": 1e9}, "at": 1e18})
        for path in lab.glob(f"u.{os.geteuid()}.*"):
            path.unlink()
        time.sleep(OFTEN)


def wakes_everybody(lab: Path) -> None:
    while True:
        publish(lab, request(1 << 50)).drop()
        time.sleep(OFTEN)


def hides_hundreds_of_files(lab: Path) -> None:
    """Claims that nobody may open, beside as many locks, which the kernel lists for each who asks for those."""
    kept = []
    for number in range(500):
        with suppress(OSError):
            os.close(os.open(lab / f"c.{os.geteuid()}.{number:08x}00000001", os.O_CREAT | os.O_WRONLY, 0))
            kept.append(os.open(lab / f"hidden.{os.getpid()}.{number}", os.O_RDWR | os.O_CREAT, 0o600))
            fcntl.flock(kept[-1], fcntl.LOCK_EX)
    time.sleep(1e6)


def claims_without_end(lab: Path) -> None:
    """Three hundred claims on a device that is not there: of one that is, a single claim could have the whole."""
    away = next(name for name in map("away:{}".format, range(99)) if device_mark(name) not in DEVICE_MARKS)
    hold = Hold(devices=(away,), bytes=1, alone=False)
    kept = [publish(lab, request(1), hold) for _ in range(300)]
    time.sleep(1e6)
    del kept


def notes_use_without_end(lab: Path) -> None:
    """Records of a length that is read whole, again and again under other names."""
    while True:
        for path in lab.glob(f"u.{os.geteuid()}.*"):
            path.unlink()
        for _ in range(4):
            line = '{"claim":"%016x","start":1,"until":2,"share":0}\n'
            text = "".join(line % random.getrandbits(64) for _ in range(9000))
            with suppress(OSError):
                (lab / f"u.{os.geteuid()}.{secrets.token_hex(8)}").write_text(text)
        time.sleep(1)


DEEDS: dict[str, Deed] = {
    deed.__name__: deed
    for deed in (
        lets_every_turn_go,
        lets_go_before_it_is_its_turn,
        changes_its_place,
        keeps_the_mutex,
        keeps_files_under_a_lease,
        locks_what_others_have,
        floods_the_queue,
        litters,
        lies_about_its_use,
        wakes_everybody,
    )
}
HEAVY: dict[str, Deed] = {  # which cost two busy processors seconds: for the soak
    deed.__name__: deed for deed in (hides_hundreds_of_files, claims_without_end, notes_use_without_end)
}
