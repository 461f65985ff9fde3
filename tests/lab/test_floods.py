"""A neighbour who floods, stalls or fills the lab stops nobody, and is named."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from jupyter_gpufit.actions import release
from jupyter_gpufit.devices.device import Device
from jupyter_gpufit.errors import LabBusy
from jupyter_gpufit.lab import Lab, Waiting, claim, ledger, queue, stalled, turn, view_lab
from jupyter_gpufit.lab.ledger import LedgerReader
from jupyter_gpufit.lab.mutex import lab_mutex
from jupyter_gpufit.lab.published import publish
from jupyter_gpufit.lab.record import Hold
from jupyter_gpufit.units import GiB
from tests.lab.neighbours import ONE, TWO, _kill_all_of, as_a_user, does, locked_file, who_claims
from tests.lab.players import Player, Stage, become, holder, start
from tests.lab.values import ADA, BOB, EVE, request, slots


@pytest.mark.parametrize("trouble", [errno.EIO, errno.EPERM, errno.ESTALE, errno.EOPNOTSUPP, errno.EBUSY])
def test_whatever_happens_on_one_file_is_a_fact_about_that_file(
    shared_lab: Lab, players: list[Player], monkeypatch: pytest.MonkeyPatch, trouble: int
) -> None:
    does(players, shared_lab, EVE, lambda lab: publish(lab, request(name="eve")))
    does(players, shared_lab, BOB, lambda lab: publish(lab, request(name="bob")))
    really = os.open

    def opens(path: Any, *how: Any, **more: Any) -> int:
        if f"q.{EVE}." in str(path):
            raise OSError(trouble, os.strerror(trouble))
        return really(path, *how, **more)

    monkeypatch.setattr(os, "open", opens)
    view = view_lab(shared_lab, ONE)
    assert [ticket.uid for ticket in view.queue] == [BOB]
    assert os.strerror(trouble) in view.remarks[0] and f"uid {EVE}" in view.remarks[0]


def test_nothing_that_lies_around_stops_anybody(shared_lab: Lab, players: list[Player], tmp_path: Path) -> None:
    def litters(lab: Path) -> object:
        number = iter(range(100))

        def called(kind: str = "c") -> Path:
            return lab / f"{kind}.{EVE}.{next(number):08x}{'0' * 8}"  # without the mark of any device

        for kind in "qcu":
            os.mkfifo(called(kind))
            os.symlink("/dev/zero", called(kind))
            os.symlink(called(kind).name, called(kind))
            called(kind).mkdir()
            called(kind).touch(0o000)
            socket.socket(socket.AF_UNIX).bind(str(called(kind)))
        os.mkfifo(lab / f"u.{ADA}.{'0' * 16}")
        os.close(os.open(os.fsencode(lab) + b"/q.\xff\xfe.\n", os.O_CREAT | os.O_WRONLY))
        return [
            locked_file(lab, called(kind).name, text)
            for kind in "qc"
            for text in (b"", b"\xff\xfe", b"[" * 10000, b'{"a":1}', b"x" * (1 << 20), b'{"request":' + b"9" * 9000)
        ]

    does(players, shared_lab, EVE, litters)
    ada = start(players, holder(shared_lab, request(4 * GiB), ONE), uid=ADA)
    ada.hear("holds cpu:0")
    view = view_lab(shared_lab, ONE)
    assert [claim.uid for claim in view.claims] == [ADA] and view.queue == ()
    [remark] = [remark for remark in view.remarks if f"uid {EVE}" in remark]
    assert "has 11 more such files" in remark
    ada.go_on()
    ada.wait()


def test_names_of_others_cannot_play_with_our_terminal(shared_lab: Lab, players: list[Player]) -> None:
    nasty = request(4 * GiB, name="\x1b[2J\nroot's job" + "x" * 9999, label="\r\x07")
    does(players, shared_lab, EVE, lambda lab: publish(lab, nasty))
    [ticket] = view_lab(shared_lab, ONE).queue
    assert ticket.request.name.isprintable() and len(ticket.request.name) == 200


def test_of_a_flood_of_tickets_so_many_count_and_the_user_is_named(
    shared_lab: Lab, players: list[Player], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "MOST_TICKETS", 5)
    monkeypatch.setattr(queue, "MOST_TICKETS", 5)
    does(players, shared_lab, EVE, lambda lab: [publish(lab, request(GiB)) for _ in range(9)])
    view = view_lab(shared_lab, ONE)
    assert len(view.queue) == 5
    assert f"uid {EVE} has 3 more such files" in view.remarks[0] and "more than the 5 tickets" in view.remarks[0]
    with pytest.raises(AssertionError, match="You have 5 jobs in the queue"):
        start(players, holder(shared_lab, request(GiB), ONE), uid=EVE).hear("holds")


def test_of_a_flood_of_claims_the_first_count_and_the_others_have_the_whole_of_their_devices(
    shared_lab: Lab, players: list[Player], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (ledger, turn):
        monkeypatch.setattr(module, "MOST_CLAIMS", 5)

    def on(device: str) -> Hold:
        return Hold(devices=(device,), bytes=1, alone=False)

    does(players, shared_lab, EVE, lambda lab: [publish(lab, request(1), on("cpu:0")) for _ in range(7)])
    view = view_lab(shared_lab, slots(8, 8))
    assert [one.hold.among(["cpu:0", "cpu:1"]) for one in view.claims] == [["cpu:0"]] * 6
    assert [one.hold.alone for one in view.claims] == [False] * 5 + [True]
    assert f"uid {EVE} has 1 more such files" in view.remarks[0] and "more than the 5 claims" in view.remarks[0]
    late = start(players, holder(shared_lab, request(GiB), slots(8, 8)), uid=EVE)
    assert "the lab lets you have 5 jobs at once" in late.hear("waits")
    start(players, holder(shared_lab, request(GiB), slots(8, 8)), uid=ADA).hear("holds cpu:1")


def test_impossible_wishes_hold_nobody_up(shared_lab: Lab, players: list[Player]) -> None:
    does(
        players,
        shared_lab,
        EVE,
        lambda lab: [
            publish(lab, asked)
            for asked in (request(1 << 59), request(GiB, gpu="no such"), request(GiB, count=64), request(None, count=3))
        ],
    )
    start(players, holder(shared_lab, request(4 * GiB), ONE), uid=ADA).hear("holds cpu:0")


@pytest.mark.slow
def test_the_mutexs_holder_is_named(shared_lab: Lab, players: list[Player]) -> None:
    def sits(lab: Path) -> int:
        fd = os.open(lab / "mutex", os.O_RDONLY)
        fcntl.flock(fd, fcntl.LOCK_SH)
        return fd

    async def take() -> None:
        async with lab_mutex(shared_lab.path, patience=0.01):
            pass

    eve = does(players, shared_lab, EVE, sits)
    with pytest.raises(LabBusy, match=f"uid {EVE}'s process {eve.pid} has held {shared_lab.path}/mutex"):
        anyio.run(take)

    ada = start(players, holder(shared_lab, request(4 * GiB), ONE), uid=ADA)
    ada.hear(f"waits: uid {EVE}'s process {eve.pid} has held")
    ada.hear("holds cpu:0")  # it stops nobody, for all that
    bob = start(players, holder(shared_lab, request(4 * GiB), ONE), uid=BOB)
    bob.hear("waits: uid")
    ada.go_on()
    bob.hear("holds cpu:0")


@pytest.mark.slow
def test_a_child_that_keeps_the_mutex_for_a_dead_process_is_named(shared_lab: Lab, players: list[Player]) -> None:
    def sits(lab: Path) -> None:
        if os.fork() == 0:
            fcntl.flock(os.open(lab / "mutex", os.O_RDONLY), fcntl.LOCK_EX)
            if os.fork() > 0:
                os._exit(0)  # the kernel goes on naming this one
            (lab / "kept").touch()
            signal.alarm(60)
            signal.pause()

    does(players, shared_lab, EVE, sits)
    until(lambda: (shared_lab.path / "kept").exists())

    async def take() -> None:
        async with lab_mutex(shared_lab.path, patience=0.01):
            pass

    def asks() -> str:
        try:
            anyio.run(take)
        except LabBusy as error:
            return str(error)
        return "got it"

    try:
        assert f"uid {EVE}'s process" in asks()  # root may look
        assert "or a child of it if that has ended" in as_a_user(players, BOB, asks)
    finally:
        _kill_all_of(EVE)


def until(happened: Callable[[], bool]) -> None:
    """For what another process does on its own."""
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.slow
def test_a_user_who_lets_every_turn_go_stops_nobody(
    shared_lab: Lab, players: list[Player], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight tickets for all devices, each dropped just before it is passed, and entered again."""
    monkeypatch.setattr(stalled, "PASSED_AFTER", 0.5)
    whole = request(None, count=2, name="never")

    def lets_go(stage: Stage) -> None:
        tickets = [publish(shared_lab.path, whole) for _ in range(8)]
        stage.say("entered")

        async def rotate() -> None:
            while True:
                await anyio.sleep(0.45)
                tickets.pop(0).drop()
                tickets.append(publish(shared_lab.path, whole))

        anyio.run(rotate)

    start(players, lets_go, uid=EVE).hear("entered")
    began = time.monotonic()
    ada = start(players, holder(shared_lab, request(4 * GiB), TWO), uid=ADA)
    ada.hear("holds")
    assert time.monotonic() - began < 20  # it was for ever
    ada.go_on()
    ada.wait()
    again = start(players, holder(shared_lab, request(4 * GiB), TWO), uid=ADA)
    again.hear("holds")
    owed = [json.loads(line) for file in shared_lab.path.glob(f"u.{ADA}.*") for line in file.read_text().splitlines()]
    assert any(str(EVE) in line.get("owed", {}) for line in owed)  # what one job of ada's learnt, the next one knew


@pytest.mark.slow(3)
def test_a_waiter_without_descriptors_goes_on_when_it_has_some(shared_lab: Lab, players: list[Player]) -> None:
    ada = start(players, holder(shared_lab, request(4 * GiB), ONE), uid=ADA)
    ada.hear("holds")
    bob = start(players, runs_short(shared_lab), uid=BOB)
    bob.hear("held")
    ada.kill()
    assert bob.hear() == "trouble: this process cannot open files at the moment (Too many open files)"
    assert bob.hear() == "holds"


def runs_short(lab: Lab) -> Callable[[Stage], None]:
    """Wait; have no descriptor left from the first wait on, and some again after a second has gone by in trouble."""
    few, many = 0, resource.getrlimit(resource.RLIMIT_NOFILE)[1]

    async def look() -> list[Device]:
        return ONE

    def part(stage: Stage) -> None:
        def report(waiting: Waiting) -> None:
            stage.say(f"{waiting.why}: {waiting.remark.partition(';')[0]}")
            resource.setrlimit(resource.RLIMIT_NOFILE, (few, many))

        async def run() -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(has_some_later)
                async with claim(lab, request(4 * GiB), look, report):
                    stage.say("holds")

        async def has_some_later() -> None:
            await anyio.sleep(3)
            resource.setrlimit(resource.RLIMIT_NOFILE, (many, many))

        anyio.run(run)

    return part


def test_hidden_processes_keep_their_claims(shared_lab: Lab, players: list[Player]) -> None:
    """/proc with hidepid=2 shows nobody else's processes."""
    ada = start(players, holder(shared_lab, request(4 * GiB), ONE), uid=ADA)
    ada.hear("holds")

    def part(stage: Stage) -> None:
        newns = 0x00020000
        libc = ctypes.CDLL(None, use_errno=True)
        if (
            libc.unshare(newns)
            or subprocess.run("mount --make-rprivate / && mount -t proc -o hidepid=2 p /proc", shell=True).returncode
        ):
            stage.say("cannot")
            return
        become(BOB)
        assert not Path(f"/proc/{ada.pid}").exists()
        stage.say(f"sees {who_claims(shared_lab)}")

    heard = start(players, part).hear()
    if heard == "cannot":
        pytest.skip("NOT TESTED: hidepid, because /proc cannot be mounted here.")
    assert heard == f"sees [{ADA}]"


@pytest.mark.slow
@pytest.mark.parametrize("files", [20_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_thousands_of_files_of_junk(files: int, shared_lab: Lab, players: list[Player]) -> None:
    def litters(lab: Path) -> None:
        for number in range(files):
            os.close(os.open(lab / f"c.{EVE}.{number:016x}", os.O_CREAT | os.O_WRONLY, 0o644))

    does(players, shared_lab, EVE, litters)
    ada = start(players, holder(shared_lab, request(4 * GiB), ONE), uid=ADA)
    ada.hear("holds cpu:0")
    bob = start(players, holder(shared_lab, request(4 * GiB), ONE), uid=BOB)
    bob.hear("waits")
    ada.kill()
    bob.hear("holds cpu:0")


@pytest.mark.slow
def test_a_full_file_system_is_an_error_and_no_harm(shared_lab: Lab, players: list[Player]) -> None:
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=1777", "lab", shared_lab.path]).returncode:
        pytest.skip("NOT TESTED: a full tmpfs, because mounting is not allowed here.")
    try:
        (shared_lab.path / "mutex").touch()
        (shared_lab.path / "mutex").chmod(0o666)
        ada = start(players, holder(shared_lab, request(4 * GiB), ONE), uid=ADA)
        ada.hear("holds")
        bob = start(players, holder(shared_lab, request(4 * GiB), ONE), uid=BOB)
        bob.hear("waits")

        does(players, shared_lab, EVE, _fill)
        late = start(players, holder(shared_lab, request(4 * GiB), ONE), uid=ADA)
        assert f"(No space left on device): uid {EVE} has 1 files with " in late.hear("waits")
        look = LedgerReader(shared_lab.path).read()
        said = release._ask(shared_lab, look.claims[0], look)
        assert f"cannot be asked here: {shared_lab.path} cannot be used (No space left on device): uid {EVE}" in said
        assert not list(shared_lab.path.glob("w.*"))
        ada.kill()
        words = bob.hear("waits")
        assert f"cannot be used (No space left on device): uid {EVE} has 1 files" in words and "GPUFIT_LAB" not in words
        (shared_lab.path / "junk").unlink()
        bob.hear("holds cpu:0")
    finally:
        for player in players:
            player.kill()
        subprocess.run(["umount", shared_lab.path], check=True)


def _fill(lab: Path) -> None:
    with (lab / "junk").open("wb", buffering=0) as file, pytest.raises(OSError):
        while True:
            file.write(b"x" * 4096)
