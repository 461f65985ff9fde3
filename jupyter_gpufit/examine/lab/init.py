"""Make the lab that all users share, or repair it: `gpufit lab init`, which may be run again at any time.

Root writes here where others can write as well. So nothing is followed, nothing of somebody else's is adopted, and the
directory opens to the others only when the mutex is in it.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...errors import CannotInit, NotRoot
from ...lab.again import COMEBACK
from ...lab.directory import MUTEX, RULE, SHARED, file_system, unsound
from ...lab.processes import removed_claims_are_held
from ...lab.published import sweep
from ...system.files import write_whole
from . import everyone, mounts
from .facts import count_dead
from .places import PlaceEntry, entry, entry_of, nearest, open_to_swap, without_links

PLAIN = re.compile(r"/[\w./+-]+")  # needs no quoting in a rule

Deed = Literal[
    "rule", "unit", "directory", "mount", "holders", "mutex", "new mutex", "mutex mode", "directory mode", "sweep"
]


@dataclass(frozen=True)
class Step:
    """Something to do, and the words for it."""

    deed: Deed
    says: str


@dataclass(frozen=True)
class Site:
    """Where the lab goes, on a machine that is at `root` (another place than / for images and tests)."""

    lab: Path
    root: Path = Path("/")

    @property
    def directory(self) -> Path:
        return self.root / self.lab.relative_to("/")

    @property
    def mutex(self) -> Path:
        return self.directory / MUTEX

    @property
    def rule(self) -> Path:
        return self.root / RULE.relative_to("/")

    @property
    def unit(self) -> Path:
        return self.root / mounts.UNITS.relative_to("/") / mounts.unit_name(self.lab)

    @property
    def rule_text(self) -> str:
        return (
            "# Written by `gpufit lab init`: the lab of jupyter_gpufit, at every boot.\n"
            f"d {self.lab} 1777 root root -\n"
            f"f {self.lab / MUTEX} 0666 root root -\n"
        )

    def command(self, deed: str = "init") -> str:
        """What an administrator types; sudo passes on neither PATH nor environment."""
        program = Path(sys.executable).with_name("gpufit")
        named = [] if self.lab == SHARED else ["env", f"GPUFIT_LAB={self.lab}"]
        rooted = [] if self.root == Path("/") else ["--root", str(self.root)]
        sudo = ["sudo"] if os.geteuid() else []
        return shlex.join([*sudo, *named, str(program if program.exists() else "gpufit"), "lab", deed, *rooted])


def site(lab: str, root: str = "") -> Site:
    """The site of the lab that the settings name, or of the machine's own."""
    base = Path(root or "/").resolve()
    inside = without_links(base / (Path(lab or SHARED).absolute()).relative_to("/"))
    return Site(Path("/") / inside.relative_to(base), base)


@dataclass(frozen=True)
class FoundSite:
    """What there is before anything is done."""

    rule: str | None  # the rule's text
    directory: PlaceEntry | None
    mutex: PlaceEntry | None
    dead: int  # files of processes that have ended
    file_system: str
    swap: str  # why somebody could swap the directory
    unit: str | None = None  # the text of systemd's unit that mounts it
    own: bool = False  # it is a file system of its own
    in_use: bool = False
    held: bool = False  # somebody holds a device by a claim whose name was removed


def init(site: Site, *, dry_run: bool = False, hub: bool = False) -> Iterator[str]:
    """Make the lab as it must be, and say each thing that is done (or would be); for a hub, the users' kernels, too."""
    if os.geteuid() != 0 and not dry_run:
        raise NotRoot(site.command())
    steps = plan(look(site), site)
    for step in steps:
        why_not = "" if dry_run else _do(step.deed, site)
        yield f"{'would be ' if dry_run else ''}{step.says}" if not why_not else why_not
    if hub:
        yield from everyone.enable(site.root, dry_run=dry_run)
    if dry_run:
        yield "Nothing was changed."
    elif why := unsound(site.directory):
        raise CannotInit(str(site.lab), why, "Somebody changes it at this moment; look who, and run this again.")
    else:
        yield f"{'' if steps else 'Nothing to do. '}The lab is {site.lab}. `gpufit lab check` proves it."
        if site.lab != SHARED:
            yield f"Let every user's environment say so, for example in /etc/environment: GPUFIT_LAB={site.lab}"


def look(site: Site) -> FoundSite:
    directory = entry(site.directory)
    is_directory = directory is not None and directory.kind == "directory"
    return FoundSite(
        rule=_text(site.rule),
        directory=directory,
        mutex=entry(site.mutex) if is_directory else None,
        dead=count_dead(site.directory) if is_directory else 0,
        file_system=file_system(nearest(site.directory)),
        swap=open_to_swap(site.directory),
        unit=_text(site.unit),
        own=mounts.mounted(site.directory).own if is_directory else False,
        in_use=mounts.in_use(site.directory) if is_directory else False,
        held=removed_claims_are_held(site.directory),
    )


def _text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace")
    except FileNotFoundError:
        return None


def plan(found: FoundSite, site: Site) -> tuple[Step, ...]:
    """What is to be done, in this order; raise CannotInit for what only a person can decide."""
    _refuse(found, site)
    steps = []
    if found.rule != site.rule_text:
        steps.append(Step("rule", f"written: {site.rule}, so that the lab is there after every boot"))
    if found.unit is None:
        steps.append(Step("unit", f"written: {site.unit}, so that it is a file system of its own after every boot"))
    if found.directory is None:
        steps.append(Step("directory", f"made: {site.directory}"))
    new = not found.own and not found.in_use and site.root == Path("/")
    if new:
        steps.append(Step("mount", f"mounted: a file system of its own on {site.directory}"))
    if found.held and (new or found.mutex is None):
        steps.append(Step("holders", "waited for: jobs that held devices in the lab of before, and do so here"))
    steps += _mutex(None if new else found.mutex, site)
    if new or found.directory is None or found.directory.mode != 0o1777:
        steps.append(Step("directory mode", f"set: {site.directory} to mode 1777"))
    if found.dead:
        steps.append(Step("sweep", f"removed: {found.dead} files of processes that have ended"))
    return tuple(steps)


def _mutex(mutex: PlaceEntry | None, site: Site) -> list[Step]:
    if mutex is None:
        return [Step("mutex", f"made: {site.mutex}")]
    if mutex.kind != "file" or mutex.uid != 0 or mutex.links != 1:
        # Not mended: with links it may be some other file of root's, which must not become writable for all.
        return [Step("new mutex", f"made anew: {site.mutex}, which was not a file of root's alone")]
    if mutex.mode != 0o666:
        return [Step("mutex mode", f"set: {site.mutex} to mode 666")]
    return []


def _refuse(found: FoundSite, site: Site) -> None:
    def because(why: str, mend: str) -> CannotInit:
        return CannotInit(str(site.lab), why, mend)

    if not PLAIN.fullmatch(str(site.lab)):
        raise because("its name has spaces or signs", "Choose one of letters, digits, dots and dashes.")
    if found.directory is not None and found.directory.kind != "directory":
        raise because(f"there is a {found.directory.kind} already", f"Look at it, then: rm {site.directory}")
    if found.directory is not None and found.directory.uid != 0:
        raise because(
            f"it belongs to uid {found.directory.uid}, who may have prepared it",
            f"Look at it, then: rm -r {site.directory}",
        )
    if found.swap:
        raise because(found.swap, "Choose a place in which only root decides, such as /run/gpufit.")
    if found.file_system != "tmpfs":
        raise because(f"it is on {found.file_system}, and only tmpfs is reliable", mount_advice(site.lab))


def mount_advice(lab: Path) -> str:
    """How to put a tmpfs there."""
    options = mounts.options(bounded=False).replace("0755", "1777")
    return (
        f"Mount one: mkdir -p {lab} && mount -t tmpfs -o {options} gpufit {lab}"
        f" (in /etc/fstab: gpufit {lab} tmpfs {options} 0 0), or choose a directory on tmpfs with GPUFIT_LAB."
    )


def _do(deed: Deed, site: Site) -> str:
    """Do it; what there is to say instead, where it could not be done and may stay so."""
    match deed:
        case "rule":
            site.rule.parent.mkdir(parents=True, exist_ok=True)
            write_whole(site.rule, site.rule_text)
            site.rule.chmod(0o644)
        case "unit":
            site.unit.parent.mkdir(parents=True, exist_ok=True)
            write_whole(site.unit, mounts.unit_text(site.lab, bounded=site.root == Path("/") and mounts.can_bound()))
            site.unit.chmod(0o644)
            mounts.enable(site.unit.parent, site.unit.name)
        case "mount":
            if why := mounts.mount(site.directory, bounded=mounts.can_bound()):
                return f"not mounted: a file system of its own on {site.directory} ({why}). Who fills /run stops it."
        case "directory":
            site.directory.parent.mkdir(parents=True, exist_ok=True)
            site.directory.mkdir(mode=0o755)  # nobody else's yet
        case _:
            fd = _open_directory(site)
            try:
                _do_inside(deed, fd, site)
            finally:
                os.close(fd)
    return ""


def _open_directory(site: Site) -> int:
    """The directory that was looked at, and not one that was put in its place since."""
    fd = os.open(site.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    if entry_of(fd).uid == 0:
        return fd
    os.close(fd)
    raise CannotInit(str(site.lab), "somebody has just put another directory there", "Run this again.")


def _do_inside(deed: Deed, directory: int, site: Site) -> None:
    match deed:
        case "holders":
            _let_come_back(directory, site.directory)
        case "mutex" | "new mutex":
            _make_mutex(directory)
        case "mutex mode":
            _open_mutex_to_all(directory)
        case "directory mode":
            os.fchmod(directory, 0o1777)
        case "sweep":
            sweep(site.directory, everyone=True)


def _let_come_back(directory: int, path: Path) -> None:
    """Have those who hold devices say so before anybody can take one: without a mutex, nobody does."""
    os.fchmod(directory, 0o1777)
    until = time.monotonic() + COMEBACK
    while removed_claims_are_held(path) and time.monotonic() < until:
        time.sleep(0.05)


def _make_mutex(directory: int) -> None:
    nonce = secrets.token_hex(8)
    there = entry(Path(MUTEX), dir_fd=directory)
    if there is not None and (there.kind, there.uid, there.links) == ("file", 0, 1):
        return _open_mutex_to_all(directory)  # no file system of its own came over it
    if there is not None and there.kind == "directory":
        os.rename(MUTEX, f"no-{MUTEX}.{nonce}", src_dir_fd=directory, dst_dir_fd=directory)
    fresh = f".{MUTEX}.{nonce}"
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=directory)
    try:
        os.fchmod(fd, 0o666)  # against the umask
        os.replace(fresh, MUTEX, src_dir_fd=directory, dst_dir_fd=directory)
    finally:
        os.close(fd)


def _open_mutex_to_all(directory: int) -> None:
    fd = os.open(MUTEX, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    try:
        found = entry_of(fd)
        if (found.kind, found.uid, found.links) == ("file", 0, 1):
            os.fchmod(fd, 0o666)
    finally:
        os.close(fd)
