"""Giving devices back: one's own, by asking, and as root by insisting; and what hostile neighbours try."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from jupyter_gpufit.actions.release import choose, release
from jupyter_gpufit.errors import NoSuchHold, NotNow, SeveralMeant
from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.jobs.record import Record, take_lock, write_record
from jupyter_gpufit.jobs.store import create_job_files
from jupyter_gpufit.lab.ledger import LedgerLook, LedgerReader
from jupyter_gpufit.lab.processes import processes_holding
from jupyter_gpufit.lab.record import Claim
from jupyter_gpufit.lab.wishes import MOST_LOOKED_AT, forget_old_wishes, make_wish, read_wishes
from jupyter_gpufit.settings import Settings
from tests.kernels import Kernel
from tests.lab.values import claim, ticket
from tests.people import ADA, BOB, EVE, Town, need_root

HERS, HIS = claim(["cpu:0"], 1, uid=ADA), claim(["cpu:1"], 1, uid=BOB)  # both jobs are called bert
WAITS = ticket(BOB)
LAB = LedgerLook(claims=(HERS, HIS), tickets=(WAITS,))


@pytest.mark.parametrize(
    ("wanted", "meant"), [("bert", HERS), (HIS.id, HIS), (WAITS.id, WAITS), ("uid 61001/bert", HERS)]
)
def test_ones_own_is_meant_before_anothers(wanted: str, meant: Claim) -> None:
    assert choose(wanted, LAB, ADA) == meant


def test_a_name_of_several_is_refused_with_their_ids() -> None:
    with pytest.raises(SeveralMeant, match=f"uid {ADA}'s bert: {HERS.id}; uid {BOB}'s bert: {HIS.id}"):
        choose("bert", LAB, EVE)


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(NoSuchHold, match=r"No job 'brt' holds.*Did you mean bert\?"):
        choose("brt", LAB, ADA)


def test_a_job_that_holds_nothing_yet_is_not_called_released(tmp_path: Path) -> None:
    settings = Settings(data=str(tmp_path), lab=str(tmp_path))
    job = Job(id="abcdef", name="bert", source="pass", created=0.0, cwd="/")
    paths = create_job_files(settings, job)
    write_record(paths, Record(state="starting", since=0.0))

    async def said() -> list[str]:
        return [words async for words in release(settings, "bert", insist=False)]

    lock = take_lock(paths, "bert")
    with pytest.raises(NotNow, match="it is starting, so there is nothing to save yet"):
        anyio.run(said)
    os.close(lock)
    write_record(paths, Record(state="done", since=0.0))
    assert anyio.run(said) == ["bert holds no device: it is done."]


def claims(town: Town) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(town.asks("status", "--json"))["claims"]
    return found


@pytest.mark.slow
def test_ones_own_job_is_asked_to_end(town: Town) -> None:
    job = town.holds("mine")
    assert town.asks("release", "mine").endswith("mine: released\n")
    assert job.end() == 128 + signal.SIGTERM
    assert claims(town) == []


@pytest.mark.slow(14)
def test_a_command_is_among_ones_jobs_and_is_stopped_by_its_name(town: Town) -> None:
    job = town.holds("night")
    waiter = town.types("run", "--name", "later", "--gpus", "2", "--", "true")
    waiter.hear("you are 1st")
    assert "Of `gpufit run`: night (runs), later (waits)." in town.asks("jobs")
    assert json.loads(town.asks("jobs", "--json")) == []
    refused = town.types("checkpoint", "night")
    assert refused.end() == 2 and "night is a command of `gpufit run`" in refused.err.text
    said = town.asks("stop", "night")
    assert said.startswith("night is a command of `gpufit run`: it is asked to end, and killed after 5 s.\n")
    assert said.endswith("night: released\n") and job.end() == 128 + signal.SIGTERM
    assert waiter.end() == 0
    unknown = town.types("stop", "nght")
    assert unknown.end() == 2 and "There is no job 'nght'" in unknown.err.text


@pytest.mark.slow
def test_another_users_job_is_not_stopped(shared_town: Town) -> None:
    shared_town.holds("hers", uid=ADA)
    refused = shared_town.types("stop", "hers", uid=BOB)
    assert refused.end() == 2 and f"hers is uid {ADA}'s, and only uid {ADA} can do this." in refused.err.text
    assert f"gpufit release 'uid {ADA}/hers'" in refused.err.text
    assert [claim["name"] for claim in claims(shared_town)] == ["hers"]


@pytest.mark.slow
def test_a_job_that_does_not_listen_is_killed_only_on_insisting(town: Town) -> None:
    town.more = {"GPUFIT_STOP_PATIENCE": "1"}
    job = town.types("run", "--name", "deaf", "--", "bash", "-c", "trap '' TERM; echo holding; sleep 1000 & wait; wait")
    job.hear("holding")
    assert "gpufit release --insist deaf" in town.asks("release", "deaf")
    assert len(claims(town)) == 1
    assert "SIGKILL" in town.asks("release", "--insist", "deaf")
    assert claims(town) == []


@pytest.mark.slow
def test_a_job_that_waits_leaves_the_queue(town: Town) -> None:
    town.holds("first", "--gpus", "2")
    waiter = town.types("run", "--name", "second", "--", "true")
    waiter.hear("you are 1st")
    town.asks("release", "second")
    assert waiter.end() == 128 + signal.SIGTERM


@pytest.mark.slow
def test_another_users_job_is_asked_for_and_goes_on(shared_town: Town) -> None:
    job = shared_town.holds("hers", uid=ADA)
    said = shared_town.asks("release", "hers", uid=BOB)
    assert f"uid {ADA} is asked to release hers" in said
    job.hear(f"uid {BOB} asks you to release cpu:0 (gpufit release hers). Your job runs on until you release it.")
    assert f"Please: uid {BOB} would like you to release hers" in shared_town.asks("status", uid=ADA)
    assert "Please" not in shared_town.asks("status", uid=BOB)
    assert "already asked uid 61001 to release hers" in shared_town.asks("release", "hers", uid=BOB)
    assert [claim["asked_by"] for claim in claims(shared_town)] == [[f"uid {BOB}"]]


@pytest.mark.slow
def test_only_root_can_insist(shared_town: Town) -> None:
    job = shared_town.holds("hers", uid=ADA)
    refused = shared_town.types("release", "--insist", "hers", uid=BOB)
    assert refused.end() == 2 and "only root can insist" in refused.err.text
    assert len(claims(shared_town)) == 1
    assert f"SIGTERM sent to uid {ADA}'s process" in shared_town.asks("release", "--insist", "hers")
    assert job.end() == 128 + signal.SIGTERM
    assert "root sent SIGTERM; it is passed on." in job.err.text
    assert claims(shared_town) == []


@pytest.mark.slow
def test_insisting_never_signals_whom_a_claim_only_names(shared_town: Town) -> None:
    """A hostile user writes a neighbour's process into a claim, and waits for root to insist."""
    victim = shared_town.holds("hers", uid=ADA)
    liar = shared_town.holds("trap", uid=EVE)
    [trap] = [claim for claim in LedgerReader(shared_town.lab).read().claims if claim.uid == EVE]
    file = shared_town.lab / trap.id
    record = json.loads(file.read_bytes())
    record["writer"]["pid"] = victim.pid
    file.write_text(json.dumps(record))
    assert processes_holding(file, EVE)[0].pid == liar.pid  # the kernel knows whose it is
    said = shared_town.asks("release", "--insist", trap.id)
    assert f"SIGTERM sent to uid {EVE}'s process {liar.pid}" in said
    assert liar.end() == 128 + signal.SIGTERM
    assert [claim["name"] for claim in claims(shared_town)] == ["hers"]


@pytest.mark.slow
def test_who_has_a_claims_file_open_does_not_hold_it(shared_town: Town) -> None:
    job = shared_town.holds("hers", uid=ADA)
    [hers] = LedgerReader(shared_town.lab).read().claims
    file = shared_town.lab / hers.id
    with file.open():
        assert processes_holding(file, os.geteuid()) == []
    holding = [process.pid for process in processes_holding(file, ADA)]
    assert holding[0] == job.pid and len(holding) == 2  # and its command


@pytest.fixture
def lab(folder: Path) -> Path:
    folder.chmod(0o1777)
    return folder


def as_user(uid: int, deed: Callable[[], object]) -> None:
    """Do it as that user, in a process of its own."""
    need_root()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            deed()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0


def wishers(lab: Path, about: Claim = HERS) -> list[int]:
    return [wish.uid for wish in read_wishes(lab, [about]).get(about.id, ())]


def test_a_wish_comes_from_whom_the_kernel_says_and_once(lab: Path) -> None:
    as_user(BOB, lambda: make_wish(lab, HERS))
    as_user(BOB, lambda: make_wish(lab, HERS))
    as_user(EVE, lambda: make_wish(lab, HERS))
    assert wishers(lab) == [BOB, EVE]
    assert len(list(lab.iterdir())) == 2
    assert wishers(lab, HIS) == []


def test_ones_wishes_about_ended_claims_are_swept(lab: Path) -> None:
    make_wish(lab, HERS)
    forget_old_wishes(lab, [HERS])
    assert wishers(lab) == [os.geteuid()]
    forget_old_wishes(lab, [HIS])
    assert list(lab.iterdir()) == []


def test_a_neighbour_can_neither_forge_a_wish_nor_stop_its_reading(lab: Path) -> None:
    nonce, other = HERS.id.rpartition(".")[2], HIS.id.rpartition(".")[2]
    as_user(BOB, lambda: make_wish(lab, HIS))
    [his] = lab.iterdir()

    def attack() -> None:
        (lab / f"w.{BOB}.{nonce}.00000001").write_text(HERS.id)  # in Bob's name
        os.mkfifo(lab / f"w.{EVE}.{nonce}.00000002")
        (lab / f"w.{EVE}.{nonce}.00000003").symlink_to("/etc/passwd")
        (lab / f"w.{EVE}.{nonce}.00000004").mkdir()
        (lab / f"w.{EVE}.{nonce}.00000005").write_text(HERS.id * 100_000)
        (lab / f"w.{EVE}.{other}.00000006").write_text(HERS.id)  # about another claim
        (lab / "w.\udcff").touch()

    as_user(EVE, attack)
    os.link(his, lab / f"w.{BOB}.{nonce}.00000007")  # Bob's wish for another claim, under a name for this one
    assert wishers(lab) == []
    assert wishers(lab, HIS) == [BOB]


def test_a_flood_of_wishes_costs_little(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nonce = HERS.id.rpartition(".")[2]
    for number in range(1, MOST_LOOKED_AT * 4):
        (lab / f"w.{number}.{nonce}.{number:08x}").touch()
    opened = []
    really_open = os.open

    def counting(path: str, flags: int) -> int:
        opened.append(path)
        return really_open(path, flags)

    monkeypatch.setattr(os, "open", counting)
    assert wishers(lab) == []
    assert len(opened) == MOST_LOOKED_AT


LOOP = "import time\nfor tick in range(600):\n    print('tick', tick)\n    time.sleep(0.1)\n"


@pytest.mark.slow
def test_a_running_cell_hears_a_wish_and_is_released_from_a_terminal(kernel: Kernel, home: Path, town: Town) -> None:
    need_root()
    lab = home / "run" / "gpufit" / "lab"
    sent = kernel.send("%%gpufit train --name cell --gpu cpu:0\n" + LOOP)
    kernel.until(sent, "tick 0")
    [held] = LedgerReader(lab).read().claims
    make_wish(lab, held)
    [wish] = lab.glob("w.*")
    os.chown(wish, BOB, BOB)  # nobody else can enter this private lab
    wish.rename(lab / wish.name.replace("w.0.", f"w.{BOB}."))
    kernel.until(sent, f"uid {BOB} asks you to release cpu:0 (gpufit release cell)")
    town.more = {"HOME": str(home), "XDG_RUNTIME_DIR": str(home / "run"), "GPUFIT_RUNTIME": "", "GPUFIT_LAB": ""}
    said = town.asks("release", "cell")
    assert "cell is saved at its next safe point, and then leaves its device." in said and "cell is released" in said
    assert "%gpufit resume cell" in kernel.finish(sent).shown
    for verb, words in (("queue", "Nobody waits."), ("history", "slot-hours"), ("status", "left for jobs")):
        assert words in kernel.check(f"%gpufit {verb}").shown
    assert "needs a terminal" in kernel.run("%gpufit status --watch").evalue
    assert "cell holds no device: it is released." in town.asks("release", "cell")
