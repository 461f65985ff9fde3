"""What a worker tells of its job: the record of how it stands, and the journal of all that it said.

Nothing is told by a worker whose job has been taken over: the later one writes the same files.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from ..system.identity import ProcessId
from ..system.version import version
from .epoch import current_epoch, next_epoch
from .events import CouldNotSave, Event, Note, Saved, StateChange
from .journal import Journal
from .live import Live
from .paths import JobPaths
from .record import LastCheckpoint, Record, write_record
from .state import GOING, State


class JobAccount:
    """The job's record and its journal."""

    def __init__(
        self, paths: JobPaths, journal_limit: int, before: Record, step: Callable[[], int], *, state: State
    ) -> None:
        self._paths = paths
        self._step = step
        self._end: StateChange | None = None
        self._end_in_journal = self._end_in_record = False
        alive = _last_written(paths)
        epoch = next_epoch(paths)  # before the journal keeps back what room there is
        self.journal = Journal(paths.journal, journal_limit)
        self.record = Record(
            state=state,
            since=time.time(),
            epoch=epoch,
            worker=ProcessId.of(os.getpid()),
            version=version(),
            step=before.step,
            checkpoint=before.checkpoint,
            kind=before.kind,
            began=before.began,
            ran=_ran(before, until=max(before.since, alive)),
            peak=before.peak,
            live=before.live.carried(),
        )
        if self.journal.short:
            self.journal.append([Note(self.journal.short)])

    def close(self) -> None:
        """Nothing more is said."""
        self.journal.close()

    def reachable(self, socket: str) -> None:
        """With the next word, fronts learn where the worker listens."""
        self.record = replace(self.record, socket=socket)

    def report(self, change: StateChange) -> None:
        """The job goes from one state to another."""
        self.put(replace(change, epoch=self.record.epoch))
        self._write(self._at(change.state, change.reason, change.device))

    def far(self, step: int, live: Live) -> None:
        """So far has it come."""
        if (step, live) != (self.record.step, self.record.live):
            peak = max(self.record.peak, live.memory.peak if live.memory else 0)
            self._write(replace(self.record, step=step, live=live, peak=peak))
        else:
            with suppress(OSError):
                os.utime(self._paths.state)  # a resume asks when the training was alive for the last time

    def saved(self, event: Saved | CouldNotSave, last: LastCheckpoint | None) -> None:
        """A checkpoint is durable, or came to nothing."""
        self.put(event)
        self._write(replace(self.record, checkpoint=last or self.record.checkpoint))

    def end(self, state: State, reason: str, *, suspended: bool = False) -> None:
        """The last word, also on a full disk; but of a worker that is suspended, and may be woken."""
        self.flush()
        self._check_epoch()
        last = self.record.device if state != "released" else ""  # where it has run
        self.record = replace(self._at(state, reason, last), suspended=suspended)
        self._end = StateChange(state, reason, epoch=self.record.epoch)
        self._end_in_journal = self._end_in_record = False
        self.write_end()

    def write_end(self) -> bool:
        """Have the end on the disk; False where the disk refuses it, which may be tried again."""
        assert self._end is not None
        self._end_in_record = self._end_in_record or self._note_end()
        self._end_in_journal = self._end_in_journal or self.journal.append_final(self._end)
        return self._end_in_record and self._end_in_journal

    @property
    def unwritten(self) -> list[str]:
        """Of a job that has ended, the journal's last entries where the disk has not taken all of its end."""
        if self._end is None or (self._end_in_record and self._end_in_journal):
            return []
        return [line.decode() for line in self.journal.unwritten(self._end)]

    def count_start(self) -> None:
        """What follows is another start of the job, though this process goes on: a later epoch."""
        # Ours before it is everybody's: what a thread of the cell prints meanwhile must not find a later worker.
        self.record = replace(self.record, epoch=current_epoch(self._paths) + 1)
        next_epoch(self._paths)

    def begin_again(self) -> None:
        """A suspended worker goes on, as the job's next epoch; to be called with the job's lock held."""
        self.count_start()
        self._end = None
        self._write(replace(self._at("starting", "", ""), suspended=False))

    def put(self, event: Event) -> None:
        """Say something, in its turn."""
        self.append([event])

    def flush(self) -> None:
        """Have all that was said in the journal."""

    def append(self, events: Sequence[Event]) -> None:
        self._check_epoch()
        self.journal.append(events)

    def _check_epoch(self) -> None:
        """End where a later worker has taken the job over, while this one was stopped or cut off from its lock."""
        try:
            latest = current_epoch(self._paths)
        except OSError:
            return  # no descriptor is free, say: it cannot be told, and the next word asks again
        if latest > self.record.epoch:
            os._exit(1)

    def _at(self, state: State, reason: str, device: str) -> Record:
        now = time.time()
        began = self.record.began or (now if state in GOING else None)
        return replace(
            self.record,
            state=state,
            since=now,
            began=began,
            ran=_ran(self.record, until=now),
            reason=reason,
            device=device,
            step=self._step(),
        )

    def _write(self, record: Record) -> None:
        self._check_epoch()
        self.record = record
        with suppress(OSError):  # the disk is full; the journal counts what is lost, and the next state may find room
            write_record(self._paths, record)

    def _note_end(self) -> bool:
        """The record's last state, if need be in the space kept back for it."""
        for reserve_is_kept in (True, False):
            if not reserve_is_kept:
                self.journal.give_up_reserve()
            with suppress(OSError):
                write_record(self._paths, self.record)
                return True
        return False


def _ran(record: Record, *, until: float) -> float:
    """For how long its cell has run."""
    return record.ran + (until - record.since if record.state in GOING else 0.0)


def _last_written(paths: JobPaths) -> float:
    """When the last worker was alive for the last time; it may have been killed, and said nothing."""
    try:
        return os.stat(paths.state).st_mtime
    except OSError:
        return 0.0
