"""What a worker tells of its job: see jobs/account.py; here with all that its cell writes, in the order it came."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from ..jobs.account import JobAccount
from ..jobs.events import Event, Text
from ..jobs.paths import JobPaths
from ..jobs.record import Record
from ..jobs.state import State
from .output import Output
from .output import WrittenText as Written


class Account(JobAccount):
    """The job's record, its journal, and the output that leads there."""

    def __init__(
        self, paths: JobPaths, journal_limit: int, before: Record, step: Callable[[], int], *, state: State
    ) -> None:
        self.output = Output(self._emit)
        super().__init__(paths, journal_limit, before, step, state=state)

    def close(self) -> None:
        self.output.stop()
        super().close()

    def put(self, event: Event) -> None:
        self.output.put(event)

    def flush(self) -> None:
        self.output.flush()

    def _emit(self, events: Sequence[object]) -> None:
        self.append([Text(*event) if isinstance(event, Written) else cast(Event, event) for event in events])
