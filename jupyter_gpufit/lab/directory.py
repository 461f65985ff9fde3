"""The lab: the directory through which all users' tickets and claims meet, and whether it can be relied on.

    /run/gpufit         root, 1777, tmpfs       made by `gpufit lab init`
      mutex             root, 0666              never created by us: whoever creates it would own it
      q.<uid>.<nonce>   0644, born locked       a ticket
      c.<uid>.<nonce>   0644, born locked       a claim; the nonce ends with the marks of its devices
      u.<uid>.<nonce>   0644, append-only       what the user has used
      w.<uid>.<claim's nonce>.<nonce>   0644    the user would like the claim released

Without such a directory the same code runs on one of the user's own, and says that claims are then private.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..devices.device import Device
from ..errors import LabGone, LabUnsound, StorageError
from ..settings import Settings
from ..system.identity import kernel_text
from ..system.users import others_have_accounts

SHARED = Path("/run/gpufit")
MUTEX = "mutex"
RULE = Path("/etc/tmpfiles.d/gpufit.conf")  # by which systemd makes it anew at every boot


@dataclass(frozen=True)
class Lab:
    """Where tickets and claims are, and who sees them."""

    path: Path
    shared: bool
    remark: str = ""  # what the user must know about it

    def remark_on(self, devices: Iterable[Device]) -> str:
        """The same, where it matters: nothing of a lab of their own where there is no GPU, or nobody, to share."""
        if not self.remark or not any(device.kind == "gpu" for device in devices):
            return ""
        return self.remark if others_have_accounts() else ""


def open_lab(settings: Settings, *, waits: bool = False) -> Lab:
    """The lab that the settings name, else the machine's, else one of this user's own.

    A machine's lab may be gone: somebody emptied /run. It is no reason to share with nobody and take what others hold.
    LabGone says so; whoever `waits` anyway waits for it.
    """
    if settings.lab:
        return _named(Path(settings.lab))
    if _is_gone(SHARED):
        if not waits:
            raise LabGone(str(SHARED))
        return Lab(SHARED, shared=True)
    if why := unsound(SHARED):
        return _private(_runtime(settings) / "lab", why)
    return Lab(SHARED, shared=True)


def _is_gone(lab: Path) -> bool:
    """Is it not there, although an administrator made it?"""
    with suppress(OSError):
        if os.lstat(lab / MUTEX).st_uid == 0:  # in a directory that was emptied anybody can make one
            return False
    try:
        return f"d {lab} " in RULE.read_text()
    except OSError:
        return False


def own_lab(settings: Settings, name: str) -> Lab:
    """One of this user's own, of this name, where the machine's does not come in."""
    return _private(_runtime(settings) / name, "")


def unsound(path: Path) -> str:
    """Why claims in this directory would not bind all users; empty when they do."""
    try:
        found = os.stat(path, follow_symlinks=False)
        mutex = os.stat(path / MUTEX, follow_symlinks=False)
    except FileNotFoundError as error:
        return f"{error.filename} does not exist"
    except OSError as error:
        return f"{error.filename} cannot be read ({error.strerror})"
    if not stat.S_ISDIR(found.st_mode):
        return "it is not a directory"
    if found.st_uid != 0:
        return f"it belongs to uid {found.st_uid} and not to root, so that its owner could remove everybody's claims"
    if stat.S_IMODE(found.st_mode) != 0o1777:
        return f"its mode is {stat.S_IMODE(found.st_mode):o} and not 1777"
    if not stat.S_ISREG(mutex.st_mode) or mutex.st_uid != 0 or stat.S_IMODE(mutex.st_mode) != 0o666:
        return f"{MUTEX} is not a file of root's with mode 666"
    if (kind := file_system(path)) != "tmpfs":
        # A disk remembers claims of before the reboot, and a network's locks are not the kernel's.
        return f"it is on {kind}; claims are only reliable on tmpfs"
    return ""


def file_system(path: Path) -> str:
    """The type of the file system on which this directory is."""
    device = os.stat(path).st_dev
    wanted, kind = f"{os.major(device)}:{os.minor(device)}", "an unknown file system"
    for line in filter(None, kernel_text("/proc/self/mountinfo").split("\n")):
        mount, _, source = line.partition(" - ")
        if mount.split(" ")[2] == wanted:
            kind = source.split(" ")[0]
    return kind


def _named(path: Path) -> Lab:
    """A directory that somebody chose: never pass over it silently."""
    why = unsound(path)
    if not why:
        return Lab(path, shared=True)
    if not path.exists() or _only_ours(path):
        return _private(path, f"{path} belongs to you alone")
    raise LabUnsound(str(path), why)


def _only_ours(path: Path) -> bool:
    found = os.stat(path, follow_symlinks=False)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _private(path: Path, why: str) -> Lab:
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        os.close(os.open(path / MUTEX, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StorageError(str(path), error.strerror or str(error), "GPUFIT_LAB") from error
    if not _only_ours(path):
        raise LabUnsound(str(path), "others can write to it")
    return Lab(
        path,
        shared=False,
        remark=f"Claims are private to you: they keep your own jobs apart, and other users do not see them ({why})."
        " An administrator makes the lab that all users share: sudo gpufit lab init",
    )


def _runtime(settings: Settings) -> Path:
    from ..system.runtime import runtime_dir  # loads the event loop, which a shared lab's readers do not need

    return runtime_dir(settings)
