"""`gpufit lab check`, in real labs on tmpfs; as root, with real users. And both commands as they are typed."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import anyio
import pytest

from jupyter_gpufit.actions.commands import parse
from jupyter_gpufit.errors import BadOption, LabBusy
from jupyter_gpufit.examine.findings import Finding
from jupyter_gpufit.examine.lab import judge
from jupyter_gpufit.examine.lab.check import check_lab
from jupyter_gpufit.examine.lab.init import Site, init
from jupyter_gpufit.examine.lab.trial import Other, Tried, try_lab

ALICE = 61001
INIT, CHECK = "sudo gpufit lab init", "sudo gpufit lab check"


def levels(findings: Iterable[Finding]) -> list[str]:
    return [finding.level for finding in findings]


# What `check` finds in a real lab


def bads(findings: list[Finding]) -> list[str]:
    return [finding.what for finding in findings if finding.level == "bad"]


def test_finds_nothing_bad_in_a_new_lab(made: Site) -> None:
    findings = check_lab(made)

    assert bads([finding for finding in findings if "protected_hardlinks" not in finding.what]) == []
    assert any(finding.what.startswith("Another user (uid 65534) saw it") for finding in findings)


def test_leaves_the_lab_as_it_was(made: Site) -> None:
    check_lab(made)

    assert [path.name for path in made.directory.iterdir()] == ["mutex"]


@pytest.mark.parametrize(
    ("mode", "mutex", "word"),
    [(0o755, 0o666, "has mode 755 and not 1777"), (0o1777, 0o600, "mode 600 and not 666"), (0o777, 0o666, "mode 777")],
)
def test_finds_what_is_wrong_and_init_mends_it(made: Site, mode: int, mutex: int, word: str) -> None:
    made.directory.chmod(mode)
    made.mutex.chmod(mutex)

    assert any(word in what for what in bads(check_lab(made)))

    list(init(made))
    assert not any(word in what for what in bads(check_lab(made)))


def test_finds_no_lab_and_goes_on(machine: Site) -> None:
    findings = check_lab(machine)

    assert any("does not exist" in what for what in bads(findings))
    assert any("protected_hardlinks" in finding.what for finding in findings)


@pytest.mark.slow
def test_names_who_keeps_the_mutex(made: Site) -> None:
    with open(made.mutex) as mutex:
        fcntl.flock(mutex, fcntl.LOCK_EX)

        (what,) = bads([finding for finding in check_lab(made) if "process" in finding.what])

    assert f"process {os.getpid()} has held" in what


def test_tells_whose_junk_there_is(made: Site) -> None:
    ours = [f"{kind}.{ALICE}.{0:016x}" for kind in "ceqsuw"]
    for name in ("junk0", "junk1", "s", *ours):
        file = made.directory / name
        file.touch()
        os.chown(file, ALICE, ALICE)

    (junk,) = (finding for finding in check_lab(made) if "nothing of gpufit's" in finding.what)

    assert f"uid {ALICE}" in junk.what and "(3)" in junk.what
    subprocess.run(junk.mend.removeprefix("sudo "), shell=True, check=True)
    assert sorted(path.name for path in made.directory.iterdir()) == sorted(["mutex", *ours]), "what claims say stays"


def test_tries_as_another_user(made: Site) -> None:
    tried = anyio.run(try_lab, made.directory, ALICE)

    assert tried == Tried(seen=True, named=True, freed=True, other=Other(ALICE))


def test_sees_what_another_user_could_do(made: Site) -> None:
    made.directory.chmod(0o777)  # not sticky

    tried = anyio.run(try_lab, made.directory, ALICE)

    assert tried.other == Other(ALICE, could=("rename",))
    assert levels(judge.trial(tried, CHECK))[-1] == "bad"


def test_the_try_gives_way_to_who_has_the_mutex(made: Site) -> None:
    with open(made.mutex) as mutex:
        fcntl.flock(mutex, fcntl.LOCK_EX)
        with pytest.raises(LabBusy):
            anyio.run(partial(try_lab, made.directory, patience=0.01))


# The command


def gpufit(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("gpufit")
    return subprocess.run([program, *words], env={**os.environ, **env}, capture_output=True, text=True)


@pytest.mark.slow
def test_the_command_makes_and_proves_a_lab(machine: Site, as_root: None) -> None:
    where = ["--root", str(machine.root)]
    before = gpufit("lab", "check", "--json", *where)
    made = gpufit("lab", "init", *where)
    after = gpufit("lab", "check", "--json", *where)

    assert (before.returncode, made.returncode) == (1, 0), made.stderr
    wrong = [finding["what"] for finding in json.loads(after.stdout)["findings"] if finding["level"] == "bad"]
    assert [what for what in wrong if "protected_hardlinks" not in what] == []
    assert after.returncode == (1 if wrong else 0)


@pytest.mark.slow
def test_the_command_goes_by_the_setting(machine: Site, as_root: None) -> None:
    lab = machine.root / "ours"

    made = gpufit("lab", "init", "--dry-run", GPUFIT_LAB=str(lab))

    assert f"would be made: {lab}\n" in made.stdout
    assert not lab.exists()


def test_lab_wants_to_know_what() -> None:
    assert parse(["lab", "init", "--dry-run"]).dry_run
    with pytest.raises(BadOption, match="init|check"):
        parse(["lab"])
    with pytest.raises(BadOption, match="invalid choice: 'chekc'"):
        parse(["lab", "chekc"])
