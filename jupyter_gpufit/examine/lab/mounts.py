"""The lab as a file system of its own: whoever fills it fills nothing else, and the kernel bounds what each user has.

Mounted now, and at every boot by a unit of systemd's. Where that may not be (a container without the right to mount),
the lab stays a directory of /run, and both commands say so.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ...lab.directory import MUTEX
from ...lab.ledger import LedgerReader
from ...system.identity import kernel_text
from ...units import MiB, format_bytes

SIZE = 64 * MiB
FILES = 16384
FILES_EACH = 2048  # of one user: 500 tickets count, and a running job has two files
BYTES_EACH = 16 * MiB
UNITS = Path("/etc/systemd/system")


@dataclass(frozen=True)
class Mounted:
    """The file system of the lab, if it has one of its own."""

    own: bool
    bounded: bool = False  # the kernel bounds what each user has there


def mounted(directory: Path) -> Mounted:
    """What is mounted there."""
    if not os.path.ismount(directory):
        return Mounted(False)
    options = ""
    for line in filter(None, kernel_text("/proc/self/mountinfo").split("\n")):
        mount, _, source = line.partition(" - ")
        if mount.split(" ")[4] == str(directory):
            options = source.split(" ")[-1]
    return Mounted(True, "usrquota" in options.split(","))


def options(*, bounded: bool) -> str:
    """Options of the mount; the directory opens to all only when the mutex is in it."""
    each = f",usrquota,usrquota_inode_hardlimit={FILES_EACH},usrquota_block_hardlimit={BYTES_EACH}" if bounded else ""
    return f"mode=0755,size={SIZE},nr_inodes={FILES},nosuid,nodev,noexec{each}"


def unit_name(lab: Path) -> str:
    """The name that systemd wants for a mount there: "run-gpufit.mount"."""
    path = re.sub(r"[^\w./]", lambda sign: f"\\x{ord(sign[0]):02x}", str(lab).strip("/"), flags=re.ASCII)
    return path.replace("/", "-") + ".mount"


def unit_text(lab: Path, *, bounded: bool) -> str:
    return (
        "# Written by `gpufit lab init`: a file system for the lab of jupyter_gpufit alone.\n"
        f"[Unit]\nDescription=The lab of jupyter_gpufit\n\n"
        f"[Mount]\nWhat=gpufit\nWhere={lab}\nType=tmpfs\nOptions={options(bounded=bounded)}\n\n"
        "[Install]\nWantedBy=local-fs.target\n"
    )


def enable(units: Path, name: str) -> None:
    """What `systemctl enable` does, also for a machine that does not run."""
    wants = units / "local-fs.target.wants" / name
    wants.parent.mkdir(exist_ok=True)
    if not wants.is_symlink():
        wants.symlink_to(f"../{name}")
    if Path("/run/systemd/system").is_dir() and units == UNITS:
        subprocess.run(["systemctl", "daemon-reload"], capture_output=True)


def can_bound() -> bool:
    """Does this kernel bound users on tmpfs (Linux 6.6, where it was built so)? Tried, and undone."""
    with tempfile.TemporaryDirectory(prefix="gpufit-") as place:
        if subprocess.run(_command(Path(place), "size=4k,usrquota"), capture_output=True).returncode:
            return False
        subprocess.run(["umount", place], capture_output=True)
    return True


def mount(directory: Path, *, bounded: bool) -> str:
    """Mount it there; why not, or empty. Never over a lab that somebody uses: its claims would be seen no more."""
    try:
        mutex = os.open(directory / MUTEX, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        mutex = None
    try:
        if mutex is not None:
            fcntl.flock(mutex, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if in_use(directory):
            return "it is in use"
        done = subprocess.run(_command(directory, options(bounded=bounded)), capture_output=True, text=True)
        return done.stderr.strip().partition("\n")[0] if done.returncode else ""
    except BlockingIOError:
        return "it is in use"
    finally:
        if mutex is not None:
            os.close(mutex)


def in_use(directory: Path) -> bool:
    found = LedgerReader(directory).read()
    return bool(found.tickets or found.claims)


def _command(directory: Path, how: str) -> list[str]:
    return ["mount", "-t", "tmpfs", "-o", how, "gpufit", str(directory)]


def limits(*, bounded: bool) -> str:
    """ "64.0 MiB and 16384 files in all, 16.0 MiB and 2048 files for each user" """
    text = f"{format_bytes(SIZE)} and {FILES} files in all"
    return f"{text}, {format_bytes(BYTES_EACH)} and {FILES_EACH} files for each user" if bounded else text
