"""What a job is called: a free name, and no other job's."""

from __future__ import annotations

import re

from ..errors import BadOption
from ..settings import Settings
from .record import read_record
from .store import all_jobs


def check_free(settings: Settings, name: str) -> None:
    """Raise BadOption where a job of that name runs, or waits to be resumed."""
    for other, paths in all_jobs(settings):
        state = read_record(paths).state if other.name == name else "done"
        if state == "released":
            raise BadOption(
                f"Your job {name!r} is released and waits to be resumed: %gpufit resume {name}. Choose another"
                f" --name, or delete it: %gpufit clean {name}"
            )
        if state not in ("done", "failed", "stopped", "lost"):
            raise BadOption(f"Your job {name!r} is still running. Choose another --name, or stop it first.")


def free_name(settings: Settings, stem: str) -> str:
    """What it is made from with the next number, so that each of its jobs can be named on a line."""
    stem = re.sub(r"[^\w.-]+", "-", stem).strip("-")[:48] or "cell"
    taken = {job.name for job, _ in all_jobs(settings)}
    number = 1
    while f"{stem}-{number}" in taken:
        number += 1
    return f"{stem}-{number}"
