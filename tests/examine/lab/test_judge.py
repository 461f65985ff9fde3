"""What the facts of a lab mean, and how they are found."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_gpufit.examine.findings import Finding
from jupyter_gpufit.examine.lab import facts, judge
from jupyter_gpufit.examine.lab.facts import Contents, Directory, OsAccount, PolicyFile, Processes, Rules, hidepid_of
from jupyter_gpufit.examine.lab.init import Site
from jupyter_gpufit.examine.lab.places import PlaceEntry
from jupyter_gpufit.examine.lab.trial import Other, Tried
from jupyter_gpufit.lab import Request
from jupyter_gpufit.lab.ledger import Strange
from jupyter_gpufit.lab.published import publish
from jupyter_gpufit.units import GiB

ALICE = 61001
LAB = Path("/run/gpufit")
INIT, CHECK = "sudo gpufit lab init", "sudo gpufit lab check"
HERE = Site(LAB)


def levels(findings: Iterable[Finding]) -> list[str]:
    return [finding.level for finding in findings]


def test_a_directory_that_anybody_can_swap_is_bad() -> None:
    found = Directory(LAB, PlaceEntry("directory", 0, 0o1777), "others can write to /run", "tmpfs", GiB, 10_000)

    assert levels(judge.directory(found, INIT)) == ["ok", "bad", "ok", "note"]


@pytest.mark.parametrize(
    ("bytes_free", "files_free", "expected"),
    [(GiB, 10_000, 0), (0, 10_000, 1), (GiB, 5, 1), (None, None, 0)],
)
def test_a_full_file_system_is_bad(bytes_free: int | None, files_free: int | None, expected: int) -> None:
    found = Directory(LAB, PlaceEntry("directory", 0, 0o1777), "", "tmpfs", bytes_free, files_free)

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


ANN = OsAccount(1000, frozenset({"ann"}), frozenset({"ann"}), frozenset({"10.0.0.1"}))


@pytest.mark.parametrize(
    ("account", "expected", "word"),
    [
        (ANN, "ok", "no sign"),
        (replace(ANN, people=frozenset()), "ok", "no sign"),
        (replace(ANN, people=frozenset({"ann", "bob"})), "bad", "ann, bob work under one account, ann"),
        (replace(ANN, people=frozenset(map(str, range(99)))), "bad", "15, 91 more work under one account"),
        (replace(ANN, names=frozenset({"ann", "bob"})), "bad", "ann, bob have one number"),
        (replace(ANN, names=frozenset({"jovyan"})), "note", "ann works as jovyan"),
        (replace(ANN, names=frozenset()), "note", "ann works as uid 1000"),
        (replace(ANN, addresses=frozenset("abc")), "note", "logged in from 3 addresses"),
    ],
)
def test_sees_signs_of_a_shared_account(account: OsAccount, expected: str, word: str) -> None:
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
        for name in ("ann", "bob", "\x1b[2Jeve" + "e" * 999)
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

    *_, eve = sorted(account.people - {"ann", "bob"})
    assert len(account.people) == 3 and eve.startswith(" [2Jeve") and len(eve) == 200, "it is shown in root's terminal"


EMPTY = Contents(live=2, dead=3, strange=(), others={}, newest=1000.0, now=2000.0)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (EMPTY, ["ok", "ok"]),
        (replace(EMPTY, newest=9999.0), ["bad", "ok"]),
        (replace(EMPTY, dead=5000), ["ok", "note"]),
        (replace(EMPTY, strange=(Strange("q.1.a", 1, "cannot be opened"),)), ["ok", "ok", "note"]),
        (replace(EMPTY, others={ALICE: 1}), ["ok", "ok", "note"]),
        (replace(EMPTY, nameless=((ALICE, 12),)), ["ok", "ok", "note"]),
    ],
)
def test_judges_what_lies_in_the_lab(found: Contents, expected: list[str]) -> None:
    assert levels(judge.contents(found, LAB, INIT)) == expected


def test_what_is_strange_is_named_with_its_owner_and_with_what_to_do() -> None:
    root = replace(EMPTY, strange=(Strange("c.0.a", 0, "cannot be opened"), Strange("c.0.b", 0, "cannot be opened")))
    *_, found = judge.contents(root, LAB, INIT)
    assert found.what == (
        "root's /run/gpufit/c.0.a cannot be opened; root has 1 more such files. Nobody waits for it; devices that it"
        " claims are held."
    )
    assert "sudo fuser -v /run/gpufit/c.0.a" in found.mend


def test_names_who_keeps_a_lock_that_no_name_leads_to(made: Site) -> None:
    held = publish(made.directory, Request(job_id="x", name="x"))
    assert facts.contents(made.directory).nameless == ()
    held.path.unlink()
    assert facts.contents(made.directory).nameless == ((os.geteuid(), os.getpid()),)
    held.drop()
    assert facts.contents(made.directory).nameless == ()


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
        (PolicyFile(True, "policy.toml is ignored: why.", (), by_root=False), ["bad"]),
    ],
)
def test_judges_the_policy(found: PolicyFile, expected: list[str]) -> None:
    assert levels(judge.policy(found)) == expected


def test_a_mistake_in_the_policy_is_mended_in_it_and_not_by_its_mode(tmp_path: Path, as_root: None) -> None:
    file = tmp_path / "policy.toml"
    file.write_text("quantum = 3\n")
    mending = [finding.mend for finding in judge.policy(facts.policy(file))]
    file.chmod(0o666)
    mending += [finding.mend for finding in judge.policy(facts.policy(file))]

    assert "sudoedit" in mending[0] and "chmod 644" in mending[1]


def test_names_the_users_of_the_policy_whom_nobody_knows(tmp_path: Path, as_root: None) -> None:
    file = tmp_path / "policy.toml"
    file.write_text("[users.root]\npriority = 1\n[users.nobody-such]\n[users.61001]\n")

    assert facts.policy(file) == PolicyFile(True, "", ("nobody-such",), file)


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
