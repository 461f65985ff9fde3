"""What the facts about a lab mean, and how to mend what is wrong; pure."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from ...lab.directory import MUTEX
from ...lab.view import by_user, strange_words
from ...system.users import user_name
from ...units import MiB, format_bytes, format_duration
from ..findings import Finding, bad, note, ok
from .facts import KINDS, Contents, Directory, OsAccount, PolicyFile, Processes, Rules
from .init import mount_advice
from .mounts import limits
from .places import PlaceEntry
from .trial import Other, Tried

FEWEST_BYTES = MiB
FEWEST_FILES = 1000
MANY_DEAD = 1000
MOST_NAMED = 8
MANY_ADDRESSES = 3  # one person logs in from a laptop and a desktop
CLOCK = 1.0  # seconds that a file may be ahead of the clock


def directory(found: Directory, init: str) -> Iterator[Finding]:
    """Does the directory bind everybody? `init` is the command that makes it."""
    entry, path = found.entry, found.path
    if entry is None:
        yield bad(f"{path} does not exist: everybody's claims are private, and bind nobody else.", init)
        return
    if entry.kind != "directory":
        yield bad(f"{path} is a {entry.kind} and not a directory.", f"Look at it, remove it, then: {init}")
        return
    if entry.uid != 0:
        yield bad(f"{path} belongs to uid {entry.uid}, who can remove everybody's claims.", f"Remove it, then: {init}")
    elif entry.mode != 0o1777:
        yield bad(f"{path} has mode {entry.mode:o} and not 1777.", init)
    else:
        yield ok(f"{path} belongs to root and has mode 1777.")
    if found.swap:
        yield bad(f"{path} can be swapped for another directory: {found.swap}.", "Set GPUFIT_LAB to a safe place.")
    if found.file_system == "tmpfs":
        yield ok(f"{path} is on tmpfs: a reboot empties it, and its locks are the kernel's.")
    else:
        yield bad(f"{path} is on {found.file_system}, and only tmpfs is reliable.", mount_advice(path))
    yield from _mounted(found, init)
    yield from _room(found)


def _mounted(found: Directory, init: str) -> Iterator[Finding]:
    if not found.mounted.own:
        yield note(
            f"{found.path} is no file system of its own: whoever fills {found.path.parent} stops the lab too.",
            f"When no job waits or runs: {init}",
        )
    elif found.mounted.bounded:
        yield ok(f"{found.path} is a file system of its own: {limits(bounded=True)}.")
    else:
        yield note(
            f"{found.path} is a file system of its own, and this kernel does not bound what one user has there:"
            " whoever fills it is named, and stops new jobs until they end.",
            "Use a Linux kernel >= 6.6 with CONFIG_TMPFS_QUOTA.",
        )


def _room(found: Directory) -> Iterator[Finding]:
    if found.bytes_free is not None and found.bytes_free < FEWEST_BYTES:
        left = format_bytes(found.bytes_free)
        yield bad(
            f"The file system of {found.path} has {left} left: nobody can queue.", f"du -a {found.path} | sort -n"
        )
    if found.files_free is not None and found.files_free < FEWEST_FILES:
        left = f"{found.files_free} files"
        yield bad(f"The file system of {found.path} has room for {left}: soon nobody can queue.", f"ls -l {found.path}")


def mutex(entry: PlaceEntry | None, path: Path, init: str) -> Iterator[Finding]:
    """Can everybody lock the mutex, and nobody replace it?"""
    if entry is None:
        yield bad(f"{path} does not exist, so nobody can claim.", init)
    elif entry.kind != "file" or entry.uid != 0:
        yield bad(f"{path} is a {entry.kind} of uid {entry.uid} and not a file of root's.", init)
    elif entry.mode != 0o666:
        yield bad(f"{path} has mode {entry.mode:o} and not 666.", init)
    else:
        yield ok(f"{path} belongs to root and everybody can lock it.")


def rules(found: Rules, lab: Path, init: str) -> Iterator[Finding]:
    """Will the lab be there after the next boot?"""
    words = [(file, line.split()) for file, line in found.lines]
    here = {
        path: (file, line)
        for path in (lab, lab / MUTEX)
        for file, line in words
        if len(line) > 1 and line[1].rstrip("/") == str(path)
    }
    if lab not in here or lab / MUTEX not in here:
        yield bad("No tmpfiles.d rule makes the lab and its mutex: they are gone after the next boot.", init)
        return
    right = (lab, "d", ["1777", "root", "root"]), (lab / MUTEX, "f", ["0666", "root", "root"])
    for path, kind, rest in right:
        file, line = here[path]
        # "d!", "f+" and the like: signs after the letter change when and how, not what.
        if line[0][0] != kind or line[2:5] != rest:
            yield bad(f"{file} makes {path} with {' '.join(line)!r}, which is not what the lab needs.", init)
        elif len(line) > 5 and line[5] != "-":
            yield bad(f"{file} removes what is older than {line[5]} from {path}: tickets that wait, too.", init)
        else:
            yield ok(f"{file} makes {path} at every boot.")
    if not found.applied:
        yield note(
            "This machine has no systemd-tmpfiles, so nothing follows that rule.",
            f"In a container, let its start-up run: {init}",
        )


def sysctls(values: Mapping[str, str | None]) -> Iterator[Finding]:
    """Does the kernel guard files in directories that everybody can write to?"""
    why = {
        "fs.protected_hardlinks": "anybody can change the time of other users' tickets, and so pass them in the queue",
        "fs.protected_regular": "programs can be made to write to files that others prepared (gpufit itself is not)",
    }
    for name, value in values.items():
        if value is None:
            yield note(f"This kernel has no {name}. Without another guard, {why[name]}.", "Use a Linux kernel >= 4.19.")
        elif value == "0":
            level = bad if name == "fs.protected_hardlinks" else note
            yield level(
                f"{name} is 0: {why[name]}.",
                f"sudo sysctl -w {name}=1 && echo {name}=1 | sudo tee /etc/sysctl.d/60-{name.partition('.')[2]}.conf",
            )
        else:
            yield ok(f"{name} is {value}.")


def processes(found: Processes) -> Iterator[Finding]:
    """Can users see whose process holds what?"""
    if found.hidepid:
        yield note(
            f"/proc hides other users' processes (hidepid={found.hidepid}): claims hold, but who uses a GPU outside the"
            " lab is not named, and the children of other users' jobs look like strangers.",
            "sudo mount -o remount,hidepid=0 /proc, or mount it with gid= a group of all who use GPUs.",
        )
    if not found.own_view:
        yield note(
            "/proc here is that of another pid namespace: processes are told apart less well.",
            "Mount a /proc of this container's own.",
        )
    elif not found.outermost:
        yield note(
            "This is a container with processes of its own: the lab binds those only whose containers see this very"
            " directory, and pids on GPUs are the machine's.",
            "Make the lab on the machine, mount it into every container (-v /run/gpufit:/run/gpufit), and check there.",
        )
    if not found.all_uids:
        yield note(
            "Users here are not numbered as on the machine (a user namespace): owners are what the mapping makes them.",
            "Check that no two people share a number in the mapping (/proc/self/uid_map).",
        )
    if not found.hidepid and found.own_view and found.outermost and found.all_uids:
        yield ok("Every process is seen with its user.")


def accounts(found: tuple[OsAccount, ...], everybody: bool) -> Iterator[Finding]:
    """Is every person a user of their own? Only signs can be seen, and each is named as what it is."""
    fine = True
    for account in found:
        for finding in _account(account):
            fine = False
            yield finding
    if fine:
        whose = "under one account" if everybody else "under your account (root sees all accounts)"
        yield ok(f"There is no sign that several people work {whose}.")


def _account(account: OsAccount) -> Iterator[Finding]:
    name = min(account.names, default=f"uid {account.uid}")
    own = "Give each person an account: claims, fairness and stopping go by it."
    if len(account.names) > 1:
        yield bad(f"The accounts {_list(account.names)} have one number ({account.uid}) and count as one user.", own)
    if len(account.people) > 1:
        yield bad(f"{_list(account.people)} work under one account, {name}, and count as one user.", own)
    elif account.people and not account.people & account.names:
        yield note(
            f"JupyterHub's user {_list(account.people)} works as {name}. If others do too, they count as one user.",
            "Let the hub start each server as the person's own user: LocalProcessSpawner, SystemdSpawner, or"
            " NB_UID in a container.",
        )
    if len(account.addresses) >= MANY_ADDRESSES:
        yield note(
            f"{name} is logged in from {len(account.addresses)} addresses ({_list(account.addresses)}).",
            f"If that is several people: {own[0].lower()}{own[1:]}",
        )


def _list(names: frozenset[str]) -> str:
    """Some of them, and how many more: whoever starts processes can have any number of names."""
    more = len(names) - MOST_NAMED
    return ", ".join([*sorted(names)[:MOST_NAMED], *([f"{more} more"] if more > 0 else [])])


def contents(found: Contents, lab: Path, init: str) -> Iterator[Finding]:
    """Is there junk, and do the files' times agree with the clock?"""
    ahead = found.newest - found.now
    if ahead > CLOCK:
        until = time.strftime("%H:%M", time.localtime(found.newest))
        yield bad(
            f"The clock was set back: a file of the lab is {format_duration(ahead)} ahead, and until then new tickets"
            " pass the older ones.",
            f"It rights itself at {until}. Keep the clock with chrony or timesyncd, which slow it instead.",
        )
    else:
        yield ok("The clock agrees with the times of the lab's files.")
    words = f"{found.live} tickets and claims are held, and {found.dead} files are left of processes that ended."
    yield (
        note(words, f"They only make the lab slower to read. To remove them: {init}")
        if found.dead > MANY_DEAD
        else ok(words)
    )
    for files in by_user(found.strange):
        end = f"Ask its owner, or look who has it (sudo fuser -v {lab / files[0].name}) and end that process."
        yield note(strange_words(lab, files), end)
    for uid, pid in found.nameless:
        yield note(
            f"{user_name(uid)}'s process {pid} keeps a locked file of the lab that has no name. It may be a claim that"
            " somebody removed: each user's new jobs wait for it, ten seconds together.",
            f"If the lab was emptied, its holder claims again by itself. Else ask its user, or: sudo kill {pid}",
        )
    for uid, count in sorted(found.others.items()):
        theirs = f"-uid {uid} ! -name '[{KINDS}].*' ! -name {MUTEX}"
        yield note(
            f"{user_name(uid)} has files in the lab that are nothing of gpufit's ({count}).",
            f"sudo find {lab} -mindepth 1 -maxdepth 1 {theirs} -exec rm -r {{}} +",
        )


def policy(found: PolicyFile) -> Iterator[Finding]:
    """Is the administrator's file followed?"""
    if found.warning:
        others = f"Root alone may write it: sudo chown root {found.path} && sudo chmod 644 {found.path}"
        yield bad(found.warning, f"Mend it: sudoedit {found.path}" if found.by_root else others)
    elif found.exists:
        yield ok(f"{found.path} is followed.")
    for name in found.unknown:
        yield note(
            f"{found.path} speaks of {name!r}, whom this machine does not know.", "Correct the name, or remove it."
        )


def trial(found: Tried, as_root: str) -> Iterator[Finding]:
    """Did the lab do what it is for? `as_root` is the command with which root tries more."""
    report = "Please report it, with the kernel's version (uname -r) and what /run is on (findmnt -T /run)."
    if found.seen and found.freed:
        yield ok("A ticket was published, seen as live, and gone when it was dropped.")
    else:
        yield bad(
            "A ticket was published, and " + ("stayed when it was dropped." if found.seen else "not seen."), report
        )
    if not found.named:
        yield note(
            "/proc/locks does not name us as the holder of our own lock, so who blocks the lab cannot be named.", report
        )
    if found.other is None:
        yield note("What another user could do was not tried.", f"{as_root}, which can become another user.")
    else:
        yield from _other(found.other, report)


def _other(other: Other, report: str) -> Iterator[Finding]:
    if other.trouble:
        yield bad(f"Another user (uid {other.uid}) cannot use the lab: {other.trouble}.", report)
    elif other.could:
        done = ", ".join(other.could)
        yield bad(f"Another user (uid {other.uid}) could {done} a ticket that is not theirs.", report)
    else:
        yield ok(
            f"Another user (uid {other.uid}) saw it, was kept out by the mutex, published a ticket too, and could"
            " neither change nor remove ours."
        )
