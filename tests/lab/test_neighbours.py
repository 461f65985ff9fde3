"""A hostile neighbour on the same machine: no claim is stolen, nobody passes the queue, and nobody else's job crashes.

What a neighbour still can do is use a device without asking, or claim it outside the queue: both are seen, with their
name on it.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from jupyter_gpufit.devices.device import Device
from jupyter_gpufit.lab import Lab, claim, locks, view_lab
from jupyter_gpufit.lab.ledger import LedgerReader
from jupyter_gpufit.lab.owner import this_process
from jupyter_gpufit.lab.published import publish
from jupyter_gpufit.lab.record import Hold, encode
from jupyter_gpufit.units import GiB
from tests.lab.neighbours import ONE, TWO, _kill_all_of, as_a_user, does, locked_file, who_claims
from tests.lab.players import Player, Stage, holder, start
from tests.lab.values import ADA, BOB, EVE, request


def name(kind: str, uid: int) -> str:
    return f"{kind}.{uid}.{'0' * 16}"


def claims_all(uid: int) -> bytes:
    return encode(request(4 * GiB, name="forged"), this_process(), Hold(devices=("cpu:0",), bytes=4 * GiB, alone=True))


def test_owner_and_order_are_the_kernels_word(shared_lab: Lab, players: list[Player]) -> None:
    ada = start(players, holder(shared_lab, request(4 * GiB), ONE), uid=ADA)
    ada.hear("holds")
    bob = start(players, holder(shared_lab, request(4 * GiB), ONE), uid=BOB)
    assert f"uid {ADA}'s bert has held cpu:0" in bob.hear("waits")
    [claim] = view_lab(shared_lab, ONE).claims
    assert (claim.uid, claim.pid) == (ADA, ada.pid)
    ada.kill()
    bob.hear("holds cpu:0")


def test_a_claim_in_somebody_elses_name_does_not_count(shared_lab: Lab, players: list[Player]) -> None:
    does(players, shared_lab, EVE, lambda lab: locked_file(lab, name("c", ADA), claims_all(ADA)))
    does(players, shared_lab, EVE, lambda lab: locked_file(lab, name("c", EVE), claims_all(EVE), mode=0o666))
    assert who_claims(shared_lab) == []


def test_a_claim_with_somebody_elses_pid_does_not_count(shared_lab: Lab, players: list[Player]) -> None:
    record = json.loads(claims_all(EVE))
    record["writer"]["pid"] = 1
    does(players, shared_lab, EVE, lambda lab: locked_file(lab, name("c", EVE), json.dumps(record).encode()))
    assert who_claims(shared_lab) == []


def test_nobody_can_touch_anothers_files(shared_lab: Lab, players: list[Player]) -> None:
    ada = start(players, holder(shared_lab, request(4 * GiB), ONE), uid=ADA)
    ada.hear("holds")
    [claim] = LedgerReader(shared_lab.path).read().claims

    def deeds(lab: Path) -> None:
        mine = lab / claim.id
        for deed in (
            lambda: os.unlink(mine),
            lambda: os.rename(mine, lab / "x"),
            lambda: os.open(mine, os.O_RDWR),
            lambda: os.truncate(mine, 0),
            lambda: os.chmod(mine, 0o600),
            lambda: os.utime(mine, (0, 0)),
            lambda: os.unlink(lab / "mutex"),
            lambda: os.rename(lab / "mutex", lab / "m"),
        ):
            with pytest.raises(PermissionError):
                deed()
        with pytest.raises(BlockingIOError):
            fcntl.flock(os.open(mine, os.O_RDONLY), fcntl.LOCK_SH | fcntl.LOCK_NB)

    does(players, shared_lab, EVE, deeds)
    assert who_claims(shared_lab) == [ADA]


def test_a_ticket_cannot_be_dated_back(shared_lab: Lab, players: list[Player]) -> None:
    bob = start(players, holder(shared_lab, request(4 * GiB), ONE), uid=BOB)
    bob.hear("holds")
    ada = start(players, holder(shared_lab, request(4 * GiB, name="ada"), ONE), uid=ADA)
    ada.hear("waits")

    def cheats(lab: Path) -> object:
        ticket = publish(lab, request(4 * GiB, name="eve"))
        os.utime(ticket.path, (0, 0))
        renamed = ticket.path.with_name(name("q", EVE))
        os.rename(ticket.path, renamed)
        os.chmod(renamed, 0o444)
        return ticket

    does(players, shared_lab, EVE, cheats)
    assert [ticket.request.name for ticket in view_lab(shared_lab, ONE).queue] == ["ada", "eve"]


def test_a_hard_link_takes_nothing_away(shared_lab: Lab, players: list[Player]) -> None:
    ada = start(players, holder(shared_lab, request(4 * GiB), ONE), uid=ADA)
    ada.hear("holds")
    [claim] = LedgerReader(shared_lab.path).read().claims

    def links(lab: Path) -> None:
        for called in (name("c", ADA), name("c", EVE), "elsewhere"):
            try:
                os.link(lab / claim.id, lab / called)
            except PermissionError:
                assert Path("/proc/sys/fs/protected_hardlinks").read_text() == "1\n"

    does(players, shared_lab, EVE, links)
    for called in (name("c", ADA), name("c", EVE)):  # as with fs.protected_hardlinks = 0
        if not (shared_lab.path / called).exists():
            os.link(shared_lab.path / claim.id, shared_lab.path / called)
    assert who_claims(shared_lab) == [ADA]
    bob = start(players, holder(shared_lab, request(4 * GiB), ONE), uid=BOB)
    bob.hear("waits")
    ada.kill()
    bob.hear("holds cpu:0")


def keeps_locked(claim: str, *, through_a_child: bool) -> Callable[[Path], object]:
    """Wait for the owner's end in order to hold the lock in its place."""

    def deed(lab: Path) -> object:
        fd = os.open(lab / claim, os.O_RDONLY)
        if os.fork() == 0:
            fcntl.flock(fd, fcntl.LOCK_EX)
            (lab / "kept").touch()
            if through_a_child and os.fork() > 0:
                os._exit(0)  # now the kernel names a pid that is dead, as it does for an owner's orphan
            signal.alarm(60)
            signal.pause()
        return None

    return deed


@pytest.mark.parametrize("through_a_child", [False, True])
def test_a_dead_claim_cannot_be_kept_by_a_reader(shared_lab: Lab, players: list[Player], through_a_child: bool) -> None:
    ada = start(players, holder(shared_lab, request(4 * GiB), ONE), uid=ADA)
    ada.hear("holds")
    [claim] = LedgerReader(shared_lab.path).read().claims
    does(players, shared_lab, EVE, keeps_locked(claim.id, through_a_child=through_a_child))
    ada.kill()
    deadline = time.monotonic() + 20
    while not (shared_lab.path / "kept").exists() and time.monotonic() < deadline:
        time.sleep(0.005)  # until the neighbour has what it waited for
    try:
        assert who_claims(shared_lab) == []
        bob = start(players, holder(shared_lab, request(4 * GiB), ONE), uid=BOB)
        bob.hear("holds cpu:0")
    finally:
        _kill_all_of(EVE)


@pytest.mark.slow
def test_a_dead_claim_cannot_be_kept_by_whoever_gets_its_owners_pid(shared_lab: Lab, players: list[Player]) -> None:
    ada = start(players, holder(shared_lab, request(4 * GiB), ONE), uid=ADA)
    ada.hear("holds")
    [claim] = LedgerReader(shared_lab.path).read().claims
    ada.kill()

    def keeps(stage: Stage) -> None:
        fcntl.flock(os.open(shared_lab.path / claim.id, os.O_RDONLY), fcntl.LOCK_EX)
        stage.say("keeps")
        anyio.run(stage.order)

    start_as(ada.pid, players, keeps).hear("keeps")
    assert who_claims(shared_lab) == []
    start(players, holder(shared_lab, request(4 * GiB), ONE), uid=BOB).hear("holds cpu:0")
    assert seen_in_another_pid_namespace(shared_lab) == [BOB]


def start_as(pid: int, players: list[Player], part: Callable[[Stage], None]) -> Player:
    """Eve, as the process with this number, which is free."""
    for _ in range(100):
        try:
            Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
        except OSError:
            break
        player = start(players, part, uid=EVE)
        if player.pid == pid:
            return player
        player.kill()
    pytest.skip("NOT TESTED: a pid that comes again, because it cannot be asked for here.")


def seen_in_another_pid_namespace(lab: Lab) -> list[int]:
    """Who claims, for a process whose pids are others than ours."""
    program = f"""if True:
        from pathlib import PosixPath
        from jupyter_gpufit.lab.ledger import LedgerReader
        print([claim.uid for claim in LedgerReader({lab.path!r}).read().claims])
    """
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", program]
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode:
        pytest.skip(f"NOT TESTED: pid namespaces, because unshare is not allowed here ({answer.stderr}).")
    return [int(word) for word in answer.stdout.strip("[]\n").split(",") if word]


def leased(lab: Path, called: str, text: bytes) -> int:
    """A file that its owner holds, and that nobody else can open for as long as the kernel is patient (45 s)."""
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # by which the kernel says that somebody waits for the lease
    fd = os.open(lab, os.O_TMPFILE | os.O_RDWR, 0o644)
    os.fchmod(fd, 0o644)
    os.write(fd, text)
    fcntl.flock(fd, fcntl.LOCK_EX)
    directory = os.open(lab, os.O_PATH)
    os.link(f"/proc/self/fd/{fd}", called, dst_dir_fd=directory, follow_symlinks=True)
    while True:
        with suppress(BlockingIOError):  # somebody who waits in the lab is just reading it
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            break
    return fd


def test_a_file_that_cannot_be_opened_blinds_nobody(shared_lab: Lab, players: list[Player]) -> None:
    ada = start(players, holder(shared_lab, request(4 * GiB), ONE), uid=ADA)
    ada.hear("holds")
    bob = start(players, holder(shared_lab, request(4 * GiB), ONE), uid=BOB)
    bob.hear("waits")
    text = encode(request(), this_process())
    does(players, shared_lab, EVE, lambda lab: [leased(lab, f"{kind}.{EVE}.{'0' * 16}", text) for kind in "qc"])

    view = view_lab(shared_lab, ONE)
    assert [claim.uid for claim in view.claims] == [ADA] and [ticket.uid for ticket in view.queue] == [BOB]
    [remark] = view.remarks
    assert f"uid {EVE}'s {shared_lab.path}/c.{EVE}." in remark and "cannot be opened (Resource temporarily" in remark
    ada.go_on()
    bob.hear("holds cpu:0")


def test_files_that_cannot_be_opened_cost_no_look_at_the_kernels_list_each(
    shared_lab: Lab, players: list[Player], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To print it, the kernel stops all locking of the machine."""

    def hidden(lab: Path) -> None:
        for number in range(100):
            os.close(os.open(lab / f"c.{EVE}.{number:08x}00000001", os.O_CREAT | os.O_WRONLY, 0))

    does(players, shared_lab, EVE, hidden)
    really, reads = locks._read, list[str]()

    def read() -> str:
        reads.append(really())
        return reads[-1]

    monkeypatch.setattr(locks, "_read", read)

    def looks() -> str:
        strange = LedgerReader(shared_lab.path).read().strange
        return f"{len(strange)} are strange, {len(reads)} reads"

    assert as_a_user(players, BOB, looks) == "100 are strange, 3 reads"


def hides(lab: Lab, how: Callable[[Path], object]) -> Callable[[Stage], None]:
    """Hold a claim, and do something to its file that keeps others from reading it."""

    async def look() -> list[Device]:
        return TWO

    def part(stage: Stage) -> None:
        async def run() -> None:
            async with claim(lab, request(None, gpu="cpu:1"), look) as granted:
                kept = how(lab.path / granted.claim.id)
                stage.say("hidden")
                await stage.order()
                del kept

        anyio.run(run)

    return part


HIDING: dict[str, Callable[[Path], object]] = {
    "for its owner alone": lambda file: file.chmod(0o600),
    "for nobody": lambda file: file.chmod(0o000),
    "for all to write": lambda file: file.chmod(0o666),
    "emptied": lambda file: os.truncate(file, 0),
    "junk": lambda file: file.write_text("junk"),
}


@pytest.mark.slow(2)
@pytest.mark.parametrize("how", HIDING)
def test_a_claim_that_nobody_can_read_is_a_claim(shared_lab: Lab, players: list[Player], how: str) -> None:
    eve = start(players, hides(shared_lab, HIDING[how]), uid=EVE)
    eve.hear("hidden")

    ada = start(players, holder(shared_lab, request(4 * GiB), TWO), uid=ADA)
    ada.hear("holds cpu:0")  # it takes no more than its own
    bob = start(players, holder(shared_lab, request(4 * GiB, gpu="cpu:1"), TWO), uid=BOB)
    assert f"uid {EVE}'s unreadable claim has held cpu:1 (all of it)" in bob.hear("waits")
    view = as_a_user(players, BOB, lambda: " ".join(view_lab(shared_lab, TWO).remarks))
    assert f"uid {EVE}'s {shared_lab.path}/c.{EVE}" in view
    assert seen_in_another_pid_namespace(shared_lab) == [EVE, ADA]
    eve.kill()
    bob.hear("holds cpu:1")
