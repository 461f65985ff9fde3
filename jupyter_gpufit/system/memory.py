"""How much of the host's memory is left to this process."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from ..settings import load_settings

_RESERVE = 0.05  # of the host's memory


def free_memory() -> int:
    """Bytes this process can still take: of the machine, and of the container or Slurm job it runs in."""
    import psutil  # here: the command line starts faster without

    return min([psutil.virtual_memory().available, *left_in_groups()])


def all_memory() -> int:
    """Bytes of the machine."""
    import psutil

    return int(psutil.virtual_memory().total)


def most_for_plans() -> int:
    """Bytes of the machine that all plans together may take for what is a device's."""
    return round((1 - _RESERVE) * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def spare_memory() -> int:
    """Bytes that plans may still take of the host for what is a device's: some of it is left to all others."""
    return _for_plans(free_memory())


def spare_at_last(held: int) -> int:
    """The same when plans that hold so much have ended: no more than what this process may ever have."""
    import psutil

    return _for_plans(min([psutil.virtual_memory().available + held, *limits_of_groups()]))


def _for_plans(left: int) -> int:
    spare = max(0, left - round(_RESERVE * all_memory()))
    most = load_settings().fit_host
    return min(spare, most) if most else spare


ROOT, OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def left_in_groups(root: Path = ROOT, own: Path = OWN) -> list[int]:
    """What each control group (version 2) around this process leaves; nothing where there is no limit."""
    return [max(0, limit - used) for limit, used in _groups(root, own)]


def limits_of_groups(root: Path = ROOT, own: Path = OWN) -> list[int]:
    return [limit for limit, _ in _groups(root, own)]


def _groups(root: Path, own: Path) -> list[tuple[int, int]]:
    """The limit of each that has one, and what is used of it."""
    try:
        named = re.search(r"^0::/(.*)$", own.read_text(), re.MULTILINE)
    except OSError:
        return []
    group = root / (named[1] if named else "")
    found = []
    for place in (group, *group.parents):
        if not place.is_relative_to(root):
            break
        with suppress(OSError, ValueError, KeyError):  # "max": no limit
            limit = int((place / "memory.max").read_text())
            stat = dict(line.split() for line in (place / "memory.stat").read_text().splitlines())
            used = int((place / "memory.current").read_text()) - int(stat["inactive_file"])
            found.append((limit, used))
    return found
