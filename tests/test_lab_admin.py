"""`gpufit lab init` and `gpufit lab check`, on real directories on tmpfs; as root, with real users."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from jupyter_gpufit.admin import facts, judge
from jupyter_gpufit.admin.check import check_lab
from jupyter_gpufit.admin.facts import Account, Contents, Directory, PolicyFile, Processes, Rules, hidepid_of
from jupyter_gpufit.admin.init import CannotInit, Found, NotRoot, Site, init, look, plan, site
from jupyter_gpufit.admin.places import Entry, open_to_swap, without_links
from jupyter_gpufit.admin.trial import Other, Tried, try_lab
from jupyter_gpufit.claims import LabBusy, Request
from jupyter_gpufit.claims.lab import file_system, unsound
from jupyter_gpufit.claims.ledger import Reader, publish
from jupyter_gpufit.commands import parse
from jupyter_gpufit.errors import BadOption
from jupyter_gpufit.findings import Check, Finding, as_json, as_text, at_once, bad, healthy, note, ok
from jupyter_gpufit.units import GiB

ALICE = 61001
LAB = Path("/run/gpufit")
INIT, CHECK = "sudo gpufit lab init", "sudo gpufit lab check"
HERE = Site(LAB)
SOUND = Found(
    rule=HERE.rule_text,
    directory=Entry("directory", 0, 0o1777),
    mutex=Entry("file", 0, 0o666),
    dead=0,
    file_system="tmpfs",
    swap="",
)


def levels(findings: Iterable[Finding]) -> list[str]:
    return [finding.level for finding in findings]


@pytest.fixture
def machine() -> Iterator[Site]:
    """A machine at another place than /, whose /run is on tmpfs."""
    root = Path(tempfile.mkdtemp(prefix="gpufit-test-", dir="/dev/shm"))
    root.chmod(0o755)
    yield Site(LAB, root)
    shutil.rmtree(root)


@pytest.fixture
def as_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: making a lab. Run the tests as root, in a container, to test it.")


@pytest.fixture
def made(machine: Site, as_root: None) -> Site:
    for _ in init(machine):
        pass
    return machine


# The plan of `init`


def deeds(found: Found) -> list[str]:
    return [step.deed for step in plan(found, HERE)]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (SOUND, []),
        (replace(SOUND, rule=None), ["rule"]),
        (replace(SOUND, rule="d /run/gpufit 0777 root root -"), ["rule"]),
        (replace(SOUND, directory=Entry("directory", 0, 0o777)), ["directory mode"]),
        (replace(SOUND, mutex=None), ["mutex"]),
        (replace(SOUND, mutex=Entry("file", 0, 0o644)), ["mutex mode"]),
        (replace(SOUND, mutex=Entry("file", ALICE, 0o666)), ["new mutex"]),
        (replace(SOUND, mutex=Entry("link", 0, 0o777)), ["new mutex"]),
        (replace(SOUND, mutex=Entry("file", 0, 0o600, links=2)), ["new mutex"]),
        (replace(SOUND, dead=3), ["sweep"]),
    ],
)
def test_plans_only_what_is_missing(found: Found, expected: list[str]) -> None:
    assert deeds(found) == expected


def test_opens_a_new_directory_when_the_mutex_is_in_it() -> None:
    assert deeds(replace(SOUND, rule=None, directory=None, mutex=None)) == [
        "rule",
        "directory",
        "mutex",
        "directory mode",
    ]


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (replace(SOUND, directory=Entry("directory", ALICE, 0o1777)), f"belongs to uid {ALICE}"),
        (replace(SOUND, directory=Entry("link", 0, 0o777)), "there is a link already"),
        (replace(SOUND, swap="others can write to /run"), "others can write to /run.*only root decides"),
        (replace(SOUND, file_system="ext4"), "on ext4.*mount -t tmpfs .* gpufit /run/gpufit"),
    ],
)
def test_leaves_to_a_person_what_somebody_may_have_prepared(found: Found, why: str) -> None:
    with pytest.raises(CannotInit, match=why):
        plan(found, HERE)


def test_refuses_a_name_that_would_need_quoting() -> None:
    with pytest.raises(CannotInit, match="spaces or signs"):
        plan(SOUND, Site(Path("/run/our lab")))


# What `init` does


def test_makes_a_lab_that_is_sound(made: Site) -> None:
    assert unsound(made.directory) == ""
    assert made.rule.read_text().splitlines()[1:] == [
        "d /run/gpufit 1777 root root -",
        "f /run/gpufit/mutex 0666 root root -",
    ]
    assert made.rule.stat().st_mode & 0o777 == 0o644


def test_a_second_init_has_nothing_to_do(made: Site) -> None:
    before = made.mutex.stat().st_ino

    (word,) = init(made)

    assert word.startswith("Nothing to do.")
    assert made.mutex.stat().st_ino == before


def test_makes_it_under_any_umask(machine: Site, as_root: None) -> None:
    before = os.umask(0o077)
    try:
        list(init(machine))
    finally:
        os.umask(before)

    assert unsound(machine.directory) == ""
    assert machine.rule.stat().st_mode & 0o777 == 0o644


def test_a_dry_run_changes_nothing(machine: Site, as_root: None) -> None:
    words = list(init(machine, dry_run=True))

    assert [word.split(":")[0] for word in words[:-1]] == [
        "would be written",
        "would be made",
        "would be made",
        "would be set",
    ]
    assert list(machine.root.iterdir()) == []


def test_repairs_modes_and_keeps_what_is_held(made: Site) -> None:
    held, dropped = (publish(made.directory, Request(job_id="x", name="x")) for _ in range(2))
    os.close(dropped.fd)
    made.directory.chmod(0o755)
    made.mutex.chmod(0o600)
    mutex = made.mutex.stat().st_ino

    words = list(init(made))

    assert unsound(made.directory) == ""
    assert made.mutex.stat().st_ino == mutex
    assert [ticket.id for ticket in Reader(made.directory).read().tickets] == [held.id]
    assert not dropped.path.exists()
    assert any("removed: 1 files" in word for word in words)
    held.drop()


@pytest.mark.parametrize("kind", ["file", "link", "directory", "hard link"])
def test_takes_no_mutex_that_somebody_prepared(made: Site, kind: str) -> None:
    secret = made.root / "secret"
    secret.touch(mode=0o600)
    made.mutex.unlink()
    match kind:
        case "file":
            made.mutex.touch()
            os.chown(made.mutex, ALICE, ALICE)
        case "link":
            made.mutex.symlink_to(secret)
        case "hard link":
            made.mutex.hardlink_to(secret)
        case "directory":
            made.mutex.mkdir()
            made.mutex.joinpath("full").touch()

    list(init(made))

    assert unsound(made.directory) == ""
    assert secret.stat().st_mode & 0o777 == 0o600


def test_takes_no_directory_of_somebody_elses(machine: Site, as_root: None) -> None:
    machine.directory.mkdir(parents=True)
    os.chown(machine.directory, ALICE, ALICE)

    with pytest.raises(CannotInit, match=f"uid {ALICE}"):
        list(init(machine))

    assert machine.directory.stat().st_uid == ALICE


def test_refuses_a_disk(tmp_path: Path, as_root: None) -> None:
    if file_system(tmp_path) == "tmpfs":
        pytest.skip("NOT TESTED: a lab on a disk, since /tmp is on tmpfs here")

    with pytest.raises(CannotInit, match="only tmpfs|can write to|belongs to"):
        list(init(Site(LAB, tmp_path)))


@pytest.mark.slow
def test_systemd_makes_the_same_lab_from_the_rule(made: Site) -> None:
    systemd = shutil.which("systemd-tmpfiles")
    if systemd is None:
        pytest.skip("NOT TESTED: the rule at boot, since there is no systemd-tmpfiles here")
    shutil.rmtree(made.directory)

    subprocess.run([systemd, "--create", f"--root={made.root}", str(made.rule)], check=True, capture_output=True)

    assert unsound(made.directory) == ""


def test_without_root_it_says_what_to_type(machine: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: ALICE)

    with pytest.raises(NotRoot, match="Run: sudo /.*gpufit lab init"):
        list(init(replace(machine, root=Path("/"))))
    with pytest.raises(NotRoot, match="Run: sudo env GPUFIT_LAB=/dev/shm/lab /.*gpufit lab init"):
        list(init(site("/dev/shm/lab")))


def test_a_site_has_no_links_in_its_path(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    assert without_links(tmp_path / "link" / "lab") == tmp_path.resolve() / "real" / "lab"


def test_sees_who_could_swap_a_directory(machine: Site, as_root: None) -> None:
    parent = machine.directory.parent
    parent.mkdir()
    assert open_to_swap(machine.directory) == ""

    parent.chmod(0o777)
    assert open_to_swap(machine.directory) == f"others can write to {parent}"

    os.chown(parent, ALICE, ALICE)
    assert open_to_swap(machine.directory) == f"{parent} belongs to uid {ALICE}"


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
    for name in range(3):
        file = made.directory / f"junk{name}"
        file.touch()
        os.chown(file, ALICE, ALICE)

    (junk,) = (finding for finding in check_lab(made) if "nothing of gpufit's" in finding.what)

    assert f"uid {ALICE}" in junk.what and "(3)" in junk.what
    subprocess.run(junk.mend.removeprefix("sudo "), shell=True, check=True)
    assert [path.name for path in made.directory.iterdir()] == ["mutex"]


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


# What the facts mean


def test_a_directory_that_anybody_can_swap_is_bad() -> None:
    found = Directory(LAB, Entry("directory", 0, 0o1777), "others can write to /run", "tmpfs", GiB, 10_000)

    assert levels(judge.directory(found, INIT)) == ["ok", "bad", "ok"]


@pytest.mark.parametrize(
    ("bytes_free", "files_free", "expected"),
    [(GiB, 10_000, 0), (0, 10_000, 1), (GiB, 5, 1), (None, None, 0)],
)
def test_a_full_file_system_is_bad(bytes_free: int | None, files_free: int | None, expected: int) -> None:
    found = Directory(LAB, Entry("directory", 0, 0o1777), "", "tmpfs", bytes_free, files_free)

    assert levels(judge.directory(found, INIT)).count("bad") == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["d /run/gpufit 1777 root root -", "f /run/gpufit/mutex 0666 root root -"], ["ok", "ok"]),
        (["d! /run/gpufit/ 1777 root root -", "f+ /run/gpufit/mutex 0666 root root"], ["ok", "ok"]),
        (["d /run/gpufit 1777 root root 10d", "f /run/gpufit/mutex 0666 root root -"], ["bad", "ok"]),
        (["d /run/gpufit 0777 root root -", "f /run/gpufit/mutex 0644 root root -"], ["bad", "bad"]),
        (["d /run/gpufit 1777 root root -"], ["bad"]),
        (["d"], ["bad"]),
        ([], ["bad"]),
    ],
)
def test_only_the_right_rule_survives_a_reboot(lines: list[str], expected: list[str]) -> None:
    rules = Rules(True, tuple(("gpufit.conf", line) for line in lines))

    assert levels(judge.rules(rules, LAB, INIT)) == expected


def test_a_rule_that_nothing_follows_is_noted() -> None:
    rules = Rules(False, tuple(("gpufit.conf", line) for line in HERE.rule_text.splitlines()[1:]))

    assert levels(judge.rules(rules, LAB, INIT)) == ["ok", "ok", "note"]


def test_a_rule_in_etc_hides_one_of_the_same_name(tmp_path: Path) -> None:
    for folder, line in (("etc", "d /run/gpufit 1777 root root -"), ("usr/lib", "d /run/gpufit 0700 root root -")):
        (tmp_path / folder / "tmpfiles.d").mkdir(parents=True)
        (tmp_path / folder / "tmpfiles.d" / "gpufit.conf").write_text(f"# why\n\n{line}\n")

    assert [line for _, line in facts.rules(tmp_path).lines] == ["d /run/gpufit 1777 root root -"]


@pytest.mark.parametrize(
    ("hardlinks", "regular", "expected"),
    [("1", "2", ["ok", "ok"]), ("0", "1", ["bad", "ok"]), ("1", "0", ["ok", "note"]), (None, None, ["note", "note"])],
)
def test_the_kernel_must_guard_hard_links(hardlinks: str | None, regular: str | None, expected: list[str]) -> None:
    values = {"fs.protected_hardlinks": hardlinks, "fs.protected_regular": regular}

    assert levels(judge.sysctls(values)) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [("rw", ""), ("rw,hidepid=0", ""), ("rw,gid=10,hidepid=2", "2"), ("rw,hidepid=invisible", "invisible")],
)
def test_reads_what_proc_hides(options: str, expected: str) -> None:
    mounts = f"21 27 0:20 / /sys rw - sysfs sysfs rw\n22 27 0:21 / /proc rw,relatime - proc proc {options}\n"

    assert hidepid_of(mounts) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Processes(own_view=True, outermost=True, hidepid="", all_uids=True), ["ok"]),
        (Processes(own_view=True, outermost=True, hidepid="2", all_uids=True), ["note"]),
        (Processes(own_view=True, outermost=False, hidepid="", all_uids=True), ["note"]),
        (Processes(own_view=False, outermost=False, hidepid="", all_uids=False), ["note", "note"]),
    ],
)
def test_hidden_processes_are_noted(found: Processes, expected: list[str]) -> None:
    assert levels(judge.processes(found)) == expected


def test_reads_this_machine_without_complaint() -> None:
    assert facts.processes().own_view
    assert any(account.uid == os.getuid() for account in facts.accounts())
    assert facts.sysctls("fs.protected_hardlinks", "fs.no_such")["fs.no_such"] is None


ANN = Account(1000, frozenset({"ann"}), frozenset({"ann"}), frozenset({"10.0.0.1"}))


@pytest.mark.parametrize(
    ("account", "expected", "word"),
    [
        (ANN, "ok", "no sign"),
        (replace(ANN, people=frozenset()), "ok", "no sign"),
        (replace(ANN, people=frozenset({"ann", "bob"})), "bad", "ann, bob work under one account, ann"),
        (replace(ANN, names=frozenset({"ann", "bob"})), "bad", "ann, bob have one number"),
        (replace(ANN, names=frozenset({"jovyan"})), "note", "ann works as jovyan"),
        (replace(ANN, names=frozenset()), "note", "ann works as uid 1000"),
        (replace(ANN, addresses=frozenset("abc")), "note", "logged in from 3 addresses"),
    ],
)
def test_sees_signs_of_a_shared_account(account: Account, expected: str, word: str) -> None:
    (finding,) = judge.accounts((account,), True)

    assert finding.level == expected and word in finding.what


@pytest.mark.slow
def test_sees_two_people_of_a_hub_under_one_account(as_root: None) -> None:
    hub = [
        subprocess.Popen(
            ["cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            user=ALICE,
            group=ALICE,
            extra_groups=[],
            env={**os.environ, "JUPYTERHUB_USER": name},
        )
        for name in ("ann", "bob")
    ]
    try:
        for process in hub:
            assert process.stdin and process.stdout
            process.stdin.write(b"here\n")
            process.stdin.flush()
            assert process.stdout.readline() == b"here\n"  # its environment is in place
        (account,) = (account for account in facts.accounts() if account.uid == ALICE)
    finally:
        for process in hub:
            process.kill()
            process.communicate()

    assert account.people == {"ann", "bob"}


EMPTY = Contents(live=2, dead=3, strange=(), others={}, newest=1000.0, now=2000.0)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (EMPTY, ["ok", "ok"]),
        (replace(EMPTY, newest=9999.0), ["bad", "ok"]),
        (replace(EMPTY, dead=5000), ["ok", "note"]),
        (replace(EMPTY, strange=("q.1.a",)), ["ok", "ok", "note"]),
        (replace(EMPTY, others={ALICE: 1}), ["ok", "ok", "note"]),
    ],
)
def test_judges_what_lies_in_the_lab(found: Contents, expected: list[str]) -> None:
    assert levels(judge.contents(found, LAB, INIT)) == expected


def test_counts_what_lies_in_the_lab(made: Site) -> None:
    held, dropped = (publish(made.directory, Request(job_id="x", name="x")) for _ in range(2))
    os.close(dropped.fd)

    found = facts.contents(made.directory)

    assert (found.live, found.dead, found.others) == (1, 1, {})
    held.drop()


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (PolicyFile(False, "", ()), []),
        (PolicyFile(True, "", ()), ["ok"]),
        (PolicyFile(True, "", ("alcie",)), ["ok", "note"]),
        (PolicyFile(True, "policy.toml is ignored: why.", ()), ["bad"]),
    ],
)
def test_judges_the_policy(found: PolicyFile, expected: list[str]) -> None:
    assert levels(judge.policy(found)) == expected


def test_names_the_users_of_the_policy_whom_nobody_knows(tmp_path: Path, as_root: None) -> None:
    file = tmp_path / "policy.toml"
    file.write_text("[users.root]\npriority = 1\n[users.nobody-such]\n[users.61001]\n")

    assert facts.policy(file) == PolicyFile(True, "", ("nobody-such",))


@pytest.mark.parametrize(
    ("tried", "expected"),
    [
        (Tried(True, True, True, Other(1)), ["ok", "ok"]),
        (Tried(True, True, True, None), ["ok", "note"]),
        (Tried(True, False, True, Other(1)), ["ok", "note", "ok"]),
        (Tried(False, True, True, Other(1, "why")), ["bad", "bad"]),
        (Tried(True, True, False, Other(1, could=("remove",))), ["bad", "bad"]),
    ],
)
def test_judges_the_try(tried: Tried, expected: list[str]) -> None:
    assert levels(judge.trial(tried, CHECK)) == expected


# Findings


def test_a_check_that_fails_is_a_finding() -> None:
    def fails() -> None:
        raise OSError("no such luck")

    (finding,) = Check("The weather", fails, lambda found: []).findings()

    assert (finding.level, finding.what) == ("note", "The weather could not be examined (OSError: no such luck).")


def test_a_check_that_hangs_hides_no_other() -> None:
    never = threading.Event()
    abyss_check: Check[bool] = Check("The abyss", never.wait, lambda _: [])
    weather_check: Check[str] = Check("The weather", lambda: "fine", lambda found: [ok(f"It is {found}.")])
    checks: list[Check[Any]] = [abyss_check, weather_check]

    abyss, weather = at_once(checks, 1)
    never.set()

    assert "The abyss could not be examined within 1 s" in abyss.what
    assert weather == ok("It is fine.")


def test_what_is_bad_stands_last() -> None:
    found = [bad("a", "do b"), ok("c"), note("d", "do e")]

    assert as_text(found).splitlines() == [
        "ok    c",
        "note  d",
        "      → do e",
        "bad   a",
        "      → do b",
        "",
        "1 bad, 1 to note, 1 ok.",
    ]
    assert json.loads(as_json(found)) == {"ok": False, "findings": [vars(finding) for finding in found]}
    assert healthy(found[1:]) and not healthy(found)


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


def test_looks_at_a_lab_that_is_not_there(machine: Site) -> None:
    assert look(machine).directory is None
