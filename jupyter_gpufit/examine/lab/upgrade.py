"""Take the lab over to this version: `gpufit lab upgrade`, typed in the environment that is new.

A running worker has its code in the files of its environment, and reads some of them late: when it saves for the first
time, or when it begins anew after a move or a turn. So a new version goes beside the old one, and this says who is
still at work in which; nobody is disturbed, and nothing is fetched.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from ...errors import NotRoot
from ...lab.ledger import LedgerReader
from ...lab.owner import uid_of
from ...lab.record import Claim, Ticket
from ...system.users import user_name
from ...system.version import version
from . import everyone
from .init import Site, init

SERVICE = Path("/etc/systemd/system/jupyterhub.service")


def upgrade(site: Site, *, dry_run: bool = False) -> Iterator[str]:
    """Say who is at work with which environment, have the lab as this version wants it, and say what is left to do."""
    if os.geteuid() != 0 and not dry_run:
        raise NotRoot(site.command("upgrade"))
    yield f"This is jupyter_gpufit {version()} in {sys.prefix}."
    users = _environments(site.directory)
    for place in sorted(users):
        yield _at_work(place, users[place])
    if not users:
        yield "Nobody holds a device or waits."
    yield from init(site, dry_run=dry_run, hub=bool(everyone.autoload(site.root).block))
    yield from _what_is_left(site, users)


def _environments(lab: Path) -> Mapping[str, list[str]]:
    """Whose jobs run with which environment's Python, in words; "": it cannot be seen."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    if lab.is_dir():
        look = LedgerReader(lab).read()
        for one in (*look.claims, *look.tickets):
            what = "" if isinstance(one, Claim) else " (waits)"
            found[environment_of(one)].append(f"{user_name(one.uid)}'s {one.request.name}{what}")
    return found


def environment_of(one: Ticket) -> str:
    """The environment whose Python runs a job, from the command line of its process; empty: it cannot be seen.

    By no word of its user's that root would run: it is shown, and compared with our own.
    """
    try:
        words = Path(f"/proc/{one.pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    python = Path(os.fsdecode(words[0]))
    shown = python.is_absolute() and python.parent.name == "bin" and str(python).isprintable()
    return str(python.parent.parent) if shown and uid_of(one.pid) == one.uid else ""


def _at_work(place: str, jobs: list[str]) -> str:
    who = ", ".join(jobs)
    if place == sys.prefix:
        return f"From this environment: {who}. Change nothing in it by pip until they have ended."
    if not place:
        return f"From an environment that cannot be seen from here (a container's, say): {who}. They go on."
    return f"From {place}: {who}. They keep their code to their end, as long as that folder stays as it is."


def _what_is_left(site: Site, users: Mapping[str, list[str]]) -> Iterator[str]:
    hub, unit = Path(sys.prefix, "bin", "jupyterhub"), site.root / SERVICE.relative_to("/")
    if unit.is_file() and str(hub) not in unit.read_text(errors="replace"):
        yield f"{unit} starts another environment's hub: let its ExecStart be {hub}, then systemctl daemon-reload."
    elif hub.exists():
        yield f"Restart the hub from {hub}. Its users' servers stop with it; their workers do not."
    old = sorted(place for place in users if place != sys.prefix and _is_roots(place))
    if old:
        again = site.command("upgrade")
        yield f"Remove {' and '.join(old)} when `{again} --dry-run` names them no more."


def _is_roots(place: str) -> bool:
    """An environment that an administrator has made: no system's own Python, and no user's."""
    with suppress(OSError):
        return bool(place) and os.lstat(place).st_uid == 0 == os.lstat(Path(place, "pyvenv.cfg")).st_uid
    return False
