"""Take back what `gpufit lab init` made: `gpufit lab uninstall`. What people wrote stays, and is named."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from ...errors import CannotUninstall, NotRoot
from ...lab.ledger import LedgerReader
from ...lab.policy_file import POLICY
from ...system.users import user_name
from . import everyone, mounts
from .init import Site

STATE = Path("/var/lib/gpufit")  # the hub's service's: history and the log of administrators
OURS = "# Written by `gpufit lab init`"


def uninstall(site: Site, *, dry_run: bool = False) -> Iterator[str]:
    """Say each thing that is removed (or would be); nothing is while somebody holds a device or waits."""
    if os.geteuid() != 0 and not dry_run:
        raise NotRoot(site.command("uninstall"))
    if who := _who_uses(site.directory):
        why = f"jobs of {who} hold devices or wait"
        raise CannotUninstall(str(site.lab), why, "Run this again when they have ended.")
    would = "would be " if dry_run else ""
    yield from everyone.disable(site.root, dry_run=dry_run)
    wants = site.unit.parent / "local-fs.target.wants" / site.unit.name
    for path in (site.rule, wants, site.unit):
        if path.is_symlink() or (path.is_file() and path.read_text(errors="replace").startswith(OURS)):
            yield f"{would}removed: {path}"
            if not dry_run:
                path.unlink()
    if site.directory.is_dir():
        if not dry_run:
            _remove(site.directory)
        yield f"{would}removed: {site.directory}"
    for path in (site.root / POLICY.parent.relative_to("/"), site.root / STATE.relative_to("/")):
        if path.exists():
            yield f"left: {path}, which is yours. To remove it: rm -r {path}"
    package = "The package itself: pip uninstall jupyter_gpufit, in each environment."
    yield "Nothing was changed." if dry_run else package


def _who_uses(lab: Path) -> str:
    if not lab.is_dir():
        return ""
    found = LedgerReader(lab).read()
    return ", ".join(sorted({user_name(one.uid) for one in (*found.claims, *found.tickets)}))


def _remove(lab: Path) -> None:
    while mounts.mounted(lab).own:
        done = subprocess.run(["umount", str(lab)], capture_output=True, text=True)
        if done.returncode:
            raise CannotUninstall(str(lab), done.stderr.strip(), f"Look who uses it: fuser -vm {lab}")
    for entry in lab.iterdir():  # flat, and of processes that have ended: nothing of it counts
        if entry.is_dir() and not entry.is_symlink():
            raise CannotUninstall(str(lab), f"{entry.name} is a directory, and nothing of ours", f"Look at it: {entry}")
        entry.unlink()
    lab.rmdir()
