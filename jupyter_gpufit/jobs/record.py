"""state.json: the latest state of a job and who its worker is, for readers in a hurry; the journal has the history."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import NotResumable
from ..system.files import for_its_owner, read_small, write_whole
from ..system.foreign import known, parsed_record
from ..system.identity import ProcessId
from .events import step_words
from .job import FORMAT, JobKind
from .live import Live
from .paths import JobPaths
from .state import LEFT, STATES, State
from .verbs import Verb, may, why_not

NEEDED = 8 << 10  # bytes on the disk: a worker's number, and the begin of its journal
LOOKS = 3  # at a record that is just being written over
UNGIVEN = ", before its variables were in a notebook or on the disk"
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
        return cls(**known(cls, record))

    @property
    def words(self) -> str:
        """ "step 1,204" """
        return step_words(self.step, self.exact)


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a worker says of itself; `lost` never stands in the file, a reader derives it."""

    state: State
    since: float  # seconds since 1970
    began: float | None = None  # seconds since 1970: its cell ran for the first time
    ran: float = 0.0  # seconds for which its cell ran, on whatever device, until `since`
    peak: int = 0  # bytes: the most that any of its processes took; the latest one's own stands in `live`
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
    kind: JobKind = "training"

    @property
    def kept(self) -> bool:
        """Whether there is something to go on from: a checkpoint, or the model's own file."""
        return self.checkpoint is not None or self.kind == "model"

    @property
    def resumable(self) -> bool:
        """Whether `resume` could go on with the job."""
        return may("resume", self.state, saved=self.kept)

    def why_not(self, verb: Verb) -> str:
        """See verbs.why_not."""
        return why_not(verb, self.state, saved=self.kept, kind=self.kind)

    @property
    def rests(self) -> bool:
        """Whether a suspended worker waits for a resume."""
        return self.state == "released" and self.suspended and self.worker is not None and self.worker.alive()

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> Record:
        found = known(cls, parsed_record(text))
        if found["state"] not in STATES:
            raise ValueError(f"{found['state']} is not a state")
        if found.get("worker") is not None:
            found["worker"] = ProcessId(**known(ProcessId, found["worker"]))
        found["live"] = Live.from_record(found.get("live", {}))
        if found.get("checkpoint") is not None:
            found["checkpoint"] = LastCheckpoint.from_record(found["checkpoint"])
        return cls(**found)


def read_record(paths: JobPaths) -> Record:
    """The job's record; `lost` when the worker is gone without having written an end."""
    record = _written(paths)
    if _is_last(record) and not owes(paths, record):
        return record
    with _glanced_at(paths) as free:
        # Read once more where nobody has the job: its worker may have ended between the two looks.
        left = read_left(paths) if free else record
        if left.state == "lost":
            _remove_socket(paths, left)
        return left


def read_left(paths: JobPaths) -> Record:
    """The same for whoever has the job's lock, and so knows that no worker of it lives."""
    record = _written(paths)
    owing = owes(paths, record)
    if _is_last(record) and not owing:
        return record
    return replace(record, state="lost", reason=f"its process ended unexpectedly{UNGIVEN if owing else ''}")


def owes(paths: JobPaths, record: Record) -> bool:
    """Whether its worker has not yet given away what a job that is done has made: it can still be lost."""
    return record.state == "done" and paths.owed.exists()


def _is_last(record: Record) -> bool:
    return record.state in LEFT


def write_record(paths: JobPaths, record: Record) -> None:
    text = record.to_json()
    try:
        write_whole(paths.state, text)
    except OSError:  # no room for a second one beside it: what it has takes it as well
        _overwrite(paths.state, text)


def begin(paths: JobPaths, kind: JobKind = "training") -> None:
    """The first record; raises where the disk has no room for what a worker cannot do without.

    From here on the record has a place on the disk. Without it nobody would find the worker's socket.
    """
    write_record(paths, Record(state="starting", since=time.time(), kind=kind))
    trial = paths.state.with_name("trial")
    try:
        fd = os.open(trial, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, NEEDED)
        finally:
            os.close(fd)
    finally:
        with suppress(OSError):
            trial.unlink(missing_ok=True)


def _overwrite(path: Path, text: str) -> None:
    """Write into the blocks that the file has; a reader that comes in between finds no record, and looks again."""
    with open(path, "r+b", buffering=0) as file:
        before = os.fstat(file.fileno()).st_size
        body = text.encode().ljust(before)
        try:
            os.posix_fallocate(file.fileno(), 0, len(body))  # all of it, or nothing
        except OSError:
            file.truncate(before)
            raise
        file.write(body)


def _written(paths: JobPaths) -> Record:
    for _ in range(LOOKS):
        with suppress(OSError, ValueError, KeyError, TypeError):
            return Record.from_json(read_small(paths.state))
    # Not yet written, or of a later version: the lock alone decides whether somebody lives.
    return Record(state="starting", since=time.time())


@contextmanager
def _glanced_at(paths: JobPaths) -> Iterator[bool]:
    """Whether nobody has the job, which nobody then takes before the block ends."""
    try:
        fd = for_its_owner(str(paths.lock), os.O_RDONLY)
    except FileNotFoundError:
        yield True
        return
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        yield False  # something else has its name: unreadable counts as held
        return
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            yield False  # held; or unreadable, which counts as held
        else:
            yield True
    finally:
        os.close(fd)


def _remove_socket(paths: JobPaths, left: Record) -> None:
    """Of a worker that was killed, which could not; the next one binds a new one, once it has the job's lock."""
    socket = Path(left.socket)
    if socket.stem != paths.root.name or left.worker is None or left.worker.alive():
        return
    with suppress(OSError):
        found = socket.lstat()
        if stat.S_ISSOCK(found.st_mode) and found.st_uid == os.geteuid():
            socket.unlink()


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
