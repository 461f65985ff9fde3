"""A notebook that is renamed or moved keeps its jobs, also when the kernel is gone by which they were known to be its.

Of a job's own file this is the only change there ever is; what else stands in it stays, also what we do not know.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress

from ..settings import Settings
from ..system.files import write_durably
from ..system.foreign import parsed_record
from .store import all_jobs


def note_renamed(settings: Settings, before: str, now: str) -> int:
    """Note that the notebook `before`, or the folder in which notebooks are, is `now`; of how many jobs it was."""
    count = 0
    for job, paths in all_jobs(settings):
        inside = _inside(job.notebook, before)
        if inside is None:
            continue
        with suppress(OSError, ValueError):  # it is just being removed
            record = parsed_record(paths.job.read_text())
            write_durably(paths.job, json.dumps({**record, "notebook": now + inside}, indent=1))
            count += 1
    return count


def _inside(path: str, place: str) -> str | None:
    """The rest of a path behind a place; None: it is not there. Of the place itself, nothing."""
    if path == place:
        return ""
    return path.removeprefix(place) if path.startswith(place.rstrip(os.sep) + os.sep) else None
