"""state.json: the latest state of a job and who its worker is, for readers in a hurry; the journal has the history."""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..errors import NotResumable
from ..job import ENDED, FORMAT, RESUMABLE, JobPaths, State, write_whole
from ..process import ProcessId
from .live import Live

GLANCES = 1.0  # seconds; whoever asks whether the job lives holds its lock for an instant


@dataclass(frozen=True)
class LastCheckpoint:
    """The newest durable checkpoint, as its worker noted it; whether it is still whole, a resume looks itself."""

    step: int
    time: float  # seconds since 1970
    bytes: int


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
    checkpoint: LastCheckpoint | None = None
    live: Live = field(default_factory=Live)

    @property
    def resumable(self) -> bool:
        """Whether `resume` could go on with the job."""
        return self.checkpoint is not None and self.state in RESUMABLE

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> Record:
        record: dict[str, Any] = json.loads(text)
        known = {name: record[name] for name in cls.__dataclass_fields__ if name in record}
        if known.get("worker"):
            known["worker"] = ProcessId(**known["worker"])
        known["live"] = Live.from_record(known.get("live") or {})
        if known.get("checkpoint"):
            known["checkpoint"] = LastCheckpoint(**known["checkpoint"])
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


def take_lock(paths: JobPaths, name: str) -> int:
    """Create the job's lock file with the lock already held; who has the descriptor has the job."""
    fd = os.open(paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + GLANCES
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return fd
        except OSError:
            if time.monotonic() > until:
                os.close(fd)
                raise NotResumable(name, f"it runs already. To follow it: %gpufit attach {name}") from None
        time.sleep(0.01)


def next_epoch(paths: JobPaths) -> int:
    """Number this start of a worker; only the holder of the job's lock may call it."""
    with ExitStack() as stack:
        if paths.checkpoints.is_dir():  # an older worker is about to publish, or will find that it no longer may
            from ..checkpoint.publish import publishing

            stack.enter_context(publishing(paths.checkpoints))
        epoch = current_epoch(paths) + 1
        write_whole(paths.epoch, str(epoch))
    return epoch


def current_epoch(paths: JobPaths) -> int:
    """The number of the latest start. A worker that finds a later one than its own has nothing more to say."""
    try:
        return int(paths.epoch.read_text())
    except FileNotFoundError:
        return 0
