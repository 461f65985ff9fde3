"""A unit of systemd's for one of our processes, so that it does not end with the service that started it.

A service that stops ends whatever is in its control group, also what has a session of its own. So a job's process has
itself moved: it asks its user's own manager for a scope, which lasts as long as the process. That manager ends with the
user's last login, unless the user lingers: else nothing is asked for, since such a scope might end before the service.

Limits that are set on the service (memory, CPU) do not hold in the scope: the setting `own_scope` keeps jobs in it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from .users import user_name

CGROUPS = Path("/proc/self/cgroup")
LINGERING = Path("/var/lib/systemd/linger")  # a file for each user, by name; the kernel keeps it for root to write
PATIENCE = 2.0  # seconds for the answer; a job that has no scope runs all the same
_MANAGER = (
    "org.freedesktop.systemd1",
    "/org/freedesktop/systemd1",
    "org.freedesktop.systemd1.Manager",
)


def service_of(cgroups: str) -> str:
    """The systemd service in which a process is, by the text of its /proc/<pid>/cgroup; empty: it is in none."""
    for line in cgroups.splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers in ("", "name=systemd"):
            units = [part for part in path.split("/") if part.endswith((".service", ".scope"))]
            if units and units[-1].endswith(".service"):
                return units[-1]
    return ""


def our_service(cgroups: Path = CGROUPS) -> str:
    """The one in which this process is."""
    try:
        return service_of(cgroups.read_text(errors="replace"))
    except OSError:  # a system without control groups
        return ""


def lingers(lingering: Path = LINGERING) -> bool:
    """Does our user's manager outlive the last login?"""
    return (lingering / user_name(os.getuid())).exists()


def leave(job: str, wanted: bool) -> None:
    """Do so where the settings want it; why it could not be stands in the job's log."""
    if wanted and (why := leave_service(job)):
        sys.stderr.write(f"When {our_service()} stops, this job ends with it: systemd did not let it leave ({why}).\n")


def leave_service(job: str, *, cgroups: Path = CGROUPS, lingering: Path = LINGERING) -> str:
    """Have this process put into a scope of its own, if it is in a service; why that could not be, or nothing."""
    if not our_service(cgroups) or not lingers(lingering):
        return ""
    properties = ("Description", "s", f"gpufit job {job}", "PIDs", "au", "1", str(os.getpid()))
    collected = ("CollectMode", "s", "inactive-or-failed")  # no unit of a job that was killed stays in the lists
    call = ("StartTransientUnit", "ssa(sv)a(sa(sv))", f"gpufit-{job}-{os.getpid()}.scope", "fail")
    # A service of the system's has none of the variables by which the user's bus is found.
    env = {**os.environ, "XDG_RUNTIME_DIR": f"/run/user/{os.getuid()}"}
    env.pop("DBUS_SESSION_BUS_ADDRESS", None)
    try:
        asked = subprocess.run(
            ["busctl", "--user", "call", *_MANAGER, *call, "3", *properties, *collected, "0"],
            env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"busctl cannot be asked ({error})"
    return "" if asked.returncode == 0 else asked.stderr.strip()
