"""`gpufit lab init`, on real directories on tmpfs; as root, with real users."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_gpufit.errors import CannotInit, NotRoot
from jupyter_gpufit.examine.lab.init import FoundSite, Site, init, look, plan, site
from jupyter_gpufit.examine.lab.mounts import unit_name, unit_text
from jupyter_gpufit.examine.lab.places import PlaceEntry, open_to_swap, without_links
from jupyter_gpufit.lab import Request
from jupyter_gpufit.lab.again import publish_again
from jupyter_gpufit.lab.directory import file_system, unsound
from jupyter_gpufit.lab.ledger import LedgerReader
from jupyter_gpufit.lab.published import publish
from jupyter_gpufit.lab.record import Hold

ALICE = 61001
LAB = Path("/run/gpufit")
HERE = Site(LAB)
SOUND = FoundSite(
    rule=HERE.rule_text,
    directory=PlaceEntry("directory", 0, 0o1777),
    mutex=PlaceEntry("file", 0, 0o666),
    dead=0,
    file_system="tmpfs",
    swap="",
    unit=unit_text(LAB, bounded=False),
    own=True,
)


# The plan of `init`


def deeds(found: FoundSite) -> list[str]:
    return [step.deed for step in plan(found, HERE)]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (SOUND, []),
        (replace(SOUND, rule=None), ["rule"]),
        (replace(SOUND, rule="d /run/gpufit 0777 root root -"), ["rule"]),
        (replace(SOUND, directory=PlaceEntry("directory", 0, 0o777)), ["directory mode"]),
        (replace(SOUND, mutex=None), ["mutex"]),
        (replace(SOUND, mutex=None, held=True), ["holders", "mutex"]),
        (replace(SOUND, mutex=PlaceEntry("file", 0, 0o644)), ["mutex mode"]),
        (replace(SOUND, mutex=PlaceEntry("file", ALICE, 0o666)), ["new mutex"]),
        (replace(SOUND, mutex=PlaceEntry("link", 0, 0o777)), ["new mutex"]),
        (replace(SOUND, mutex=PlaceEntry("file", 0, 0o600, links=2)), ["new mutex"]),
        (replace(SOUND, dead=3), ["sweep"]),
        (replace(SOUND, unit=None), ["unit"]),
        (replace(SOUND, own=False), ["mount", "mutex", "directory mode"]),
        (replace(SOUND, own=False, in_use=True), []),  # its claims would be seen no more
    ],
)
def test_plans_only_what_is_missing(found: FoundSite, expected: list[str]) -> None:
    assert deeds(found) == expected


def test_opens_a_new_directory_when_the_mutex_is_in_it() -> None:
    assert deeds(replace(SOUND, rule=None, unit=None, directory=None, mutex=None, own=False)) == [
        "rule",
        "unit",
        "directory",
        "mount",
        "mutex",
        "directory mode",
    ]


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (replace(SOUND, directory=PlaceEntry("directory", ALICE, 0o1777)), f"belongs to uid {ALICE}"),
        (replace(SOUND, directory=PlaceEntry("link", 0, 0o777)), "there is a link already"),
        (replace(SOUND, swap="others can write to /run"), "others can write to /run.*only root decides"),
        (replace(SOUND, file_system="ext4"), "on ext4.*mount -t tmpfs .* gpufit /run/gpufit"),
    ],
)
def test_leaves_to_a_person_what_somebody_may_have_prepared(found: FoundSite, why: str) -> None:
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
    assert [ticket.id for ticket in LedgerReader(made.directory).read().tickets] == [held.id]
    assert not dropped.path.exists()
    assert any("removed: 1 files" in word for word in words)
    held.drop()


def test_who_held_a_device_is_in_a_new_lab_before_anybody_can_take_one(made: Site) -> None:
    asks = Request(job_id="j", name="held")
    hold = Hold(devices=("cpu:0",), bytes=1, alone=True)
    held = publish(made.directory, asks, hold)
    claim, found = held.as_claim(asks, hold), []
    shutil.rmtree(made.directory)

    def comes_back() -> None:
        until = time.monotonic() + 300
        while not (made.directory.is_dir() and made.directory.stat().st_mode & 0o002):
            assert time.monotonic() < until
            time.sleep(0.01)
        found.append(made.mutex.exists())
        publish_again(made.directory, claim, held.fd)

    holder = threading.Thread(target=comes_back)
    holder.start()
    words = list(init(made))
    holder.join()

    assert found == [False] and any(word.startswith("waited for: jobs that held") for word in words)
    assert [claim.request.name for claim in LedgerReader(made.directory).read().claims] == ["held"]
    assert unsound(made.directory) == ""
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


def test_looks_at_a_lab_that_is_not_there(machine: Site) -> None:
    assert look(machine).directory is None


def test_systemd_knows_the_unit_by_its_place(machine: Site, as_root: None) -> None:
    assert unit_name(LAB) == "run-gpufit.mount"
    assert unit_name(Path("/srv/our-lab+1")) == r"srv-our\x2dlab\x2b1.mount"
    list(init(machine))
    link = machine.unit.parent / "local-fs.target.wants" / "run-gpufit.mount"
    assert link.resolve() == machine.unit and f"Where={LAB}\n" in machine.unit.read_text()


MACHINE = """
set -e
mount --make-rprivate /
mount -t tmpfs run /run
mkdir -p {aside}/tmpfiles.d {aside}/system /etc/tmpfiles.d /etc/systemd/system
mount --bind {aside}/tmpfiles.d /etc/tmpfiles.d
mount --bind {aside}/system /etc/systemd/system
"""


def on_a_machine(script: str, aside: Path) -> subprocess.CompletedProcess[str]:
    """Run it where /run and the folders of systemd are another's, and / is the root."""
    text = MACHINE.format(aside=aside) + script.replace("gpufit ", f"{Path(sys.executable).with_name('gpufit')} ")
    env = {name: value for name, value in os.environ.items() if not name.startswith("GPUFIT_")}
    return subprocess.run(["unshare", "--mount", "sh", "-c", text], capture_output=True, text=True, env=env)


@pytest.mark.slow
def test_the_lab_is_a_file_system_of_its_own(tmp_path: Path, as_root: None) -> None:
    if on_a_machine("true", tmp_path).returncode:
        pytest.skip("NOT TESTED: a lab of its own file system, because mounting is not allowed here.")

    made = on_a_machine("gpufit lab init; stat -f -c '%T %c' /run/gpufit; gpufit lab init; gpufit lab check", tmp_path)

    assert "mounted: a file system of its own on /run/gpufit" in made.stdout, made.stderr
    assert "tmpfs 16384\n" in made.stdout and "Nothing to do." in made.stdout
    assert "/run/gpufit is a file system of its own" in made.stdout
    assert "size=67108864" in (tmp_path / "system" / "run-gpufit.mount").read_text()


@pytest.mark.slow
def test_a_lab_in_use_is_not_mounted_over(tmp_path: Path, as_root: None) -> None:
    if on_a_machine("true", tmp_path).returncode:
        pytest.skip("NOT TESTED: a lab of its own file system, because mounting is not allowed here.")
    holder = "GPUFIT_DEVICES=cpu:1x4GiB gpufit run -- sh -c 'gpufit lab init; touch {aside}/held; ls /run/gpufit'"
    made = on_a_machine(
        "mkdir -m 1777 /run/gpufit; touch /run/gpufit/mutex; chmod 666 /run/gpufit/mutex\n"
        f"export HOME={tmp_path}\n" + holder.format(aside=tmp_path),
        tmp_path,
    )
    assert (tmp_path / "held").exists(), made.stderr
    assert "mounted: a file system of its own" not in made.stdout and "\nc.0." in made.stdout
