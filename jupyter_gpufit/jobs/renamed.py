"""A notebook that is renamed or moved keeps its jobs, also when the kernel is gone by which they were known to be its.

Of a job's own file this is the only change there ever is; what else stands in it stays, also what we do not know. A
kernel knows its notebook by the name that it had when the kernel began, so that renames are noted for it, too.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ..settings import Settings
from ..system.directories import data_dir
from ..system.files import alone, for_its_owner, read_small, write_durably, write_whole
from ..system.foreign import parsed_record
from .store import all_jobs

FORMAT = 1
MOST = 500  # renames that are remembered
LARGEST = 8 << 20  # bytes of them


def note_renamed(settings: Settings, before: str, now: str, *, guessed: bool = False) -> int:
    """Note that the notebook `before`, or the folder in which notebooks are, is `now`; of how many jobs it was.

    What is only guessed holds for jobs to come as long as nothing has the old name.
    """
    with _alone(settings):
        with suppress(OSError):  # a full disk: jobs that are begun later would have the old name
            _remember(settings, before, now, guessed)
        return _rewrite(settings, before, now)


def _rewrite(settings: Settings, before: str, now: str) -> int:
    count = 0
    for job, paths in all_jobs(settings):
        inside = _inside(job.notebook, before)
        if inside is None:
            continue
        with suppress(OSError, ValueError):  # it is just being removed
            record = parsed_record(read_small(paths.job))
            write_durably(paths.job, json.dumps({**record, "notebook": now + inside}, indent=1))
            count += 1
    return count


def where_now(settings: Settings, notebook: str, since: float) -> str:
    """Where the notebook is that had this path then (seconds since 1970), as far as anybody heard."""
    for when, before, now, guessed in _renames(settings):
        if when >= since and (inside := _inside(notebook, before)) is not None:
            if not (guessed and os.path.lexists(before)):
                notebook = now + inside
    return notebook


@contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    """Who hears of a rename and who finds one, in two servers, too, would write over what the other changed."""
    path = _file(settings).with_suffix(".lock")
    with ExitStack() as held:
        with suppress(OSError):  # a full disk, or a file system without locks: noted all the same
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            held.enter_context(alone(path))
        yield


def _remember(settings: Settings, before: str, now: str, guessed: bool) -> None:
    lines = _lines(settings)[-MOST + 1 :]
    lines.append(json.dumps({"format": FORMAT, "time": time.time(), "before": before, "now": now, "guessed": guessed}))
    path = _file(settings)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(path, "\n".join(lines) + "\n")


def _renames(settings: Settings) -> Iterator[tuple[float, str, str, bool]]:
    """In their order; what cannot be read is passed over."""
    with suppress(OSError):
        for line in _lines(settings):
            with suppress(ValueError, KeyError, TypeError, OverflowError):
                record = parsed_record(line)
                if record["format"] <= FORMAT:
                    guessed = record.get("guessed") is True
                    yield float(record["time"]), str(record["before"]), str(record["now"]), guessed


def _lines(settings: Settings) -> list[str]:
    """Those that may be ours: json writes ASCII, so that a garbled one costs no other."""
    try:
        with open(_file(settings), encoding="ascii", errors="replace", opener=for_its_owner) as file:
            return [line for line in file.read(LARGEST).split("\n") if line and line.isascii()]
    except FileNotFoundError:
        return []


def _file(settings: Settings) -> Path:
    return data_dir(settings) / "renamed.jsonl"


def _inside(path: str, place: str) -> str | None:
    """The rest of a path behind a place; None: it is not there. Of the place itself, nothing."""
    if path == place:
        return ""
    return path.removeprefix(place) if path.startswith(place.rstrip(os.sep) + os.sep) else None
