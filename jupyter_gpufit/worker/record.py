"""state.json: the latest state of a job and who its worker is, for readers in a hurry; the journal has the history."""

from __future__ import annotations

import fcntl
import json
import os
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..job import ENDED, FORMAT, JobPaths, State, write_whole
from ..process import ProcessId


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a worker says of itself; `lost` never stands in the file, a reader derives it."""

    state: State
    since: float  # seconds since 1970
    reason: str = ""
    device: str = ""
    epoch: int = 0
    step: int = 0
    worker: ProcessId | None = None
    socket: str = ""
    version: str = ""  # of jupyter_gpufit in the worker

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> Record:
        record: dict[str, Any] = json.loads(text)
        known = {name: record[name] for name in cls.__dataclass_fields__ if name in record}
        if known.get("worker"):
            known["worker"] = ProcessId(**known["worker"])
        return cls(**known)


def read_record(paths: JobPaths) -> Record:
    """The job's record; `lost` when the worker is gone without having written an end."""
    record = _written(paths)
    if record.state in ENDED or record.state == "released" or _is_locked(paths):
        return record
    # The worker may have ended between the two looks.
    again = _written(paths)
    return again if again.state in ENDED else replace(again, state="lost", reason="its worker ended without a word")


def write_record(paths: JobPaths, record: Record) -> None:
    write_whole(paths.state, record.to_json())


def _written(paths: JobPaths) -> Record:
    try:
        return Record.from_json(paths.state.read_text())
    except (OSError, ValueError, KeyError, TypeError):
        # Not yet written, or of a later version: the lock alone decides whether somebody lives.
        return Record(state="starting", since=time.time())


def _is_locked(paths: JobPaths) -> bool:
    try:
        fd = os.open(paths.lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError:
        return True  # held; or unreadable, which counts as held
    finally:
        os.close(fd)


def take_lock(paths: JobPaths) -> int:
    """Create the job's lock file with the lock already held; who has the descriptor has the job."""
    fd = os.open(paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd


def next_epoch(paths: JobPaths) -> int:
    """Number this start of a worker; only the holder of the job's lock may call it."""
    try:
        epoch = int(paths.epoch.read_text()) + 1
    except FileNotFoundError:
        epoch = 1
    write_whole(paths.epoch, str(epoch))
    return epoch
