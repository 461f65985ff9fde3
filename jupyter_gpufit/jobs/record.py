"""state.json: the latest state of a job and who its worker is, for readers in a hurry; the journal has the history."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..errors import NotResumable
from ..system.files import write_whole
from ..system.identity import ProcessId
from .events import step_words
from .job import FORMAT
from .live import Live
from .paths import JobPaths
from .state import LEFT, RESUMABLE, State

GLANCES = 1.0  # seconds; whoever asks whether the job lives holds its lock for an instant


@dataclass(frozen=True)
class LastCheckpoint:
    """The newest durable checkpoint, as its worker noted it; whether it is still whole, a resume looks itself."""

    step: int
    time: float  # seconds since 1970
    bytes: int
    exact: bool = True  # goes on to the bit; else by a library's own resume

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> LastCheckpoint:
        """Read what `asdict` made of it; unknown keys are ignored."""
        return cls(**{name: record[name] for name in cls.__dataclass_fields__ if name in record})

    @property
    def words(self) -> str:
        """ "step 1,204" """
        return step_words(self.step, self.exact)


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
    suspended: bool = False  # of a released job: its worker stays for as long as it may, and can be woken
    live: Live = field(default_factory=Live)

    @property
    def resumable(self) -> bool:
        """Whether `resume` could go on with the job."""
        return self.checkpoint is not None and self.state in RESUMABLE

    @property
    def rests(self) -> bool:
        """Whether a suspended worker waits for a resume."""
        return self.state == "released" and self.suspended and self.worker is not None and self.worker.alive()

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
            known["checkpoint"] = LastCheckpoint.from_record(known["checkpoint"])
        return cls(**known)


def read_record(paths: JobPaths) -> Record:
    """The job's record; `lost` when the worker is gone without having written an end."""
    record = _written(paths)
    # Read once more where nobody has the job: its worker may have ended between the two looks.
    return record if _is_last(record) or _is_locked(paths) else read_left(paths)


def read_left(paths: JobPaths) -> Record:
    """The same for whoever has the job's lock, and so knows that no worker of it lives."""
    record = _written(paths)
    return record if _is_last(record) else replace(record, state="lost", reason="its worker ended without a word")


def _is_last(record: Record) -> bool:
    return record.state in LEFT


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
    try:
        lock(fd, name)
    except BaseException:
        os.close(fd)
        raise
    return fd


def lock(fd: int, name: str) -> None:
    """Lock a job's lock file, which is open."""
    until = time.monotonic() + GLANCES
    while True:
        try:
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > until:
                raise NotResumable(name, f"it runs already. To follow it: %gpufit attach {name}") from None
        time.sleep(0.01)


def unlock(fd: int) -> None:
    """Leave the job to whoever takes it, with the file still open."""
    fcntl.flock(fd, fcntl.LOCK_UN)
