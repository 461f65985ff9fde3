"""What a lab rests on, asked of the machine; `judge` says what it means."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import stat
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...lab.directory import MUTEX, file_system
from ...lab.ledger import LedgerReader, Strange
from ...lab.owner import own_pid
from ...lab.policy_file import POLICY, load_policy, policy_path
from ...lab.processes import keepers_of_nameless
from ...lab.record import word
from ...system.identity import kernel_text
from .mounts import Mounted, mounted
from .places import PlaceEntry, entry, open_to_swap

# In order of precedence: of files with one name, systemd reads only the first.
RULE_FOLDERS = ("etc/tmpfiles.d", "run/tmpfiles.d", "usr/local/lib/tmpfiles.d", "usr/lib/tmpfiles.d")
INITIAL_PID_NAMESPACE = 0xEFFFFFFC  # fixed in the kernel
MOMENT = 0.05  # seconds
ENVIRONMENT = 1 << 18  # bytes of a process's environment that are looked at


@dataclass(frozen=True)
class Directory:
    path: Path
    entry: PlaceEntry | None
    swap: str  # why somebody could swap it; empty: nobody can
    file_system: str
    bytes_free: int | None  # None: without a limit, or unknown
    files_free: int | None
    mounted: Mounted = Mounted(False)


def directory(path: Path) -> Directory:
    found = entry(path)
    if found is None or found.kind != "directory":
        return Directory(path, found, "", "", None, None)
    room = os.statvfs(path)
    return Directory(
        path,
        found,
        open_to_swap(path),
        file_system(path),
        room.f_bavail * room.f_frsize if room.f_blocks else None,
        room.f_favail if room.f_files else None,
        mounted(path),
    )


@dataclass(frozen=True)
class Rules:
    """What systemd is told to make at boot."""

    applied: bool  # is there a systemd-tmpfiles that would
    lines: tuple[tuple[str, str], ...]  # file, line


def rules(root: Path) -> Rules:
    chosen: dict[str, Path] = {}
    for folder in RULE_FOLDERS:
        for file in (root / folder).glob("*.conf"):
            chosen.setdefault(file.name, file)
    lines = [(str(file), line) for file in chosen.values() for line in _lines(file)]
    return Rules(shutil.which("systemd-tmpfiles") is not None, tuple(lines))


def _lines(file: Path) -> list[str]:
    try:
        text = file.read_text(errors="replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def sysctls(*names: str) -> dict[str, str | None]:
    """Values of the kernel's settings by name; None: this kernel has no such."""
    return {name: _read(Path("/proc/sys") / name.replace(".", "/")) for name in names}


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


@dataclass(frozen=True)
class Processes:
    """How far this process can see the others."""

    own_view: bool  # /proc numbers processes as we do
    outermost: bool  # we are in no container's pid namespace
    hidepid: str  # mount option of /proc; empty: nothing is hidden
    all_uids: bool  # uids here are those of the machine


def processes() -> Processes:
    return Processes(
        own_view=own_pid() == os.getpid(),
        outermost=os.stat("/proc/self/ns/pid").st_ino == INITIAL_PID_NAMESPACE,
        hidepid=hidepid_of(kernel_text("/proc/self/mountinfo")),
        all_uids=(_read(Path("/proc/self/uid_map")) or "0 0 4294967295").split() == ["0", "0", "4294967295"],
    )


def hidepid_of(mounts: str) -> str:
    """The option hidepid of the /proc that counts, which is the one mounted last; empty where nothing is hidden."""
    option = ""
    for line in filter(None, mounts.split("\n")):
        mount, _, source = line.partition(" - ")
        if mount.split(" ")[4] == "/proc":
            options = source.split(" ")[-1].split(",")
            option = next((word.partition("=")[2] for word in options if word.startswith("hidepid=")), "")
    return "" if option in ("0", "off") else option


@dataclass(frozen=True)
class OsAccount:
    """One uid, and who seems to be behind it."""

    uid: int
    names: frozenset[str] = frozenset()  # in the list of accounts
    people: frozenset[str] = frozenset()  # as JupyterHub calls them
    addresses: frozenset[str] = frozenset()  # from which they logged in


def accounts() -> tuple[OsAccount, ...]:
    """The accounts of the processes that we may look into: our own; as root, everybody's."""
    people: dict[int, set[str]] = {}
    addresses: dict[int, set[str]] = {}
    for uid, words in _environments():
        # Anybody's words, for root's terminal.
        people.setdefault(uid, set()).update(
            filter(None, [word(words.get("JUPYTERHUB_USER") or words.get("NB_USER", ""))])
        )
        addresses.setdefault(uid, set()).update(map(word, words.get("SSH_CONNECTION", "").split()[:1]))
    names: dict[int, set[str]] = {}
    for account in pwd.getpwall():
        names.setdefault(account.pw_uid, set()).add(account.pw_name)
    return tuple(
        OsAccount(uid, frozenset(names.get(uid, ())), frozenset(people[uid]), frozenset(addresses[uid]))
        for uid in sorted(people)
    )


def _environments() -> Iterable[tuple[int, Mapping[str, str]]]:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                uid, text = os.fstat(file.fileno()).st_uid, file.read(ENVIRONMENT)
        except OSError:
            continue  # not ours to look into, or just gone
        pairs = (word.partition("=") for word in text.decode(errors="replace").split("\0"))
        yield uid, {name: value for name, _, value in pairs}


KINDS = "qcuwes"  # tickets, claims, uses, wishes, ends and standings: so their files' names begin


@dataclass(frozen=True)
class Contents:
    """What lies in the lab."""

    live: int
    dead: int
    strange: tuple[Strange, ...]
    others: Mapping[int, int]  # uid -> files that are none of ours
    newest: float  # seconds since 1970: the latest time that the kernel gave to one of the files
    now: float
    nameless: tuple[tuple[int, int], ...] = ()  # uid and pid of who keeps a locked file without a name


def contents(path: Path) -> Contents:
    now, newest = time.time(), os.stat(path).st_ctime
    ours, others = 0, Counter[int]()
    with os.scandir(path) as entries:
        for file in entries:
            try:
                found = file.stat(follow_symlinks=False)
            except OSError:
                continue
            newest = max(newest, found.st_ctime)
            if file.name[:2] in ("q.", "c."):
                ours += 1
            elif file.name != MUTEX and not (file.name[1:2] == "." and file.name[0] in KINDS):
                others[found.st_uid] += 1
    snapshot = LedgerReader(path).read()
    live = len(snapshot.tickets) + len(snapshot.claims) + len(snapshot.strange)
    dead = max(0, ours - live)
    return Contents(live, dead, snapshot.strange, dict(others), newest, now, tuple(sorted(_nameless(path))))


def _nameless(path: Path) -> set[tuple[int, int]]:
    """Without what is just being published, and has its name a moment later."""
    if found := keepers_of_nameless(path):
        time.sleep(MOMENT)
        found &= keepers_of_nameless(path)
    return found


def count_dead(path: Path) -> int:
    return contents(path).dead


@dataclass(frozen=True)
class PolicyFile:
    exists: bool
    warning: str  # why it is not followed
    unknown: tuple[str, ...]  # users and groups that this machine does not know
    path: Path = POLICY
    by_root: bool = True  # alone can it have been written


def policy(path: Path | None = None) -> PolicyFile:
    path = path or policy_path()
    found = load_policy(path)
    unknown = tuple(name for name in found.users if not name.isdigit() and not _is_user(name))
    unknown += tuple(f"group {name}" for name in found.groups if not _is_group(name))
    return PolicyFile(path.exists(), found.warning, unknown, path, _is_roots_alone(path))


def _is_roots_alone(path: Path) -> bool:
    try:
        found = os.stat(path)
    except OSError:
        return True  # it is something else that is wrong
    return found.st_uid == 0 and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _is_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _is_group(name: str) -> bool:
    try:
        grp.getgrnam(name)
    except KeyError:
        return False
    return True
