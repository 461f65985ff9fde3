"""A notebook's own look at its user's runs: tables of pandas, which a notebook has and this package does not need."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..actions.status import JobView
from ..errors import BadOption
from ..jobs.events import Metrics
from ..jobs.journal import JournalReader
from ..jobs.paths import JobPaths
from ..jobs.state import GOING

if TYPE_CHECKING:
    import pandas


def runs(jobs: Iterable[JobView], now: float) -> pandas.DataFrame:
    """A row for each run, oldest first, by its id."""
    pd = _pandas()
    rows = [_row(job, now) for job in jobs]
    frame: pandas.DataFrame = pd.DataFrame(rows, columns=_COLUMNS).set_index("id")
    frame["began"] = pd.to_datetime(frame["began"], unit="s", utc=True)
    frame["ran"] = pd.to_timedelta(frame["ran"], unit="s")
    return frame


def numbers(paths: JobPaths) -> pandas.DataFrame:
    """All numbers of one run's loop that its journal has, over its steps, and when they were."""
    pd = _pandas()
    found: dict[int, dict[str, float | None]] = {}
    reader = JournalReader(paths.journal, 0, frozenset({Metrics.kind}))
    try:
        for entry in reader.read():
            assert isinstance(entry.event, Metrics)
            step = entry.event.step
            while found and next(reversed(found)) > step:  # it went on from an earlier step, and did these again
                found.popitem()
            found[step] = {**found.pop(step, {}), **entry.event.values, "time": entry.time}
    finally:
        reader.close()
    frame: pandas.DataFrame = pd.DataFrame.from_dict(found, orient="index")
    frame.index.name = "step"
    if "time" in frame:
        frame["time"] = pd.to_datetime(frame["time"], unit="s", utc=True)
    return frame


_COLUMNS = ["id", "name", "state", "began", "ran", "steps", "loss", "peak_bytes", "device", "notebook", "reason"]


def _row(job: JobView, now: float) -> tuple[object, ...]:
    ran = job.ran + (max(0.0, now - job.since) if job.state in GOING else 0.0)
    loss = job.loss.value if job.loss else None
    peak = job.memory.peak if job.memory else None
    named = (job.id, job.name, job.state, job.began, ran, job.progress.step)
    return (*named, loss, peak, job.device, job.notebook, job.reason)


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        install = f"{sys.executable} -m pip install pandas"
        raise BadOption(f"%gpufit runs gives a table of pandas, which is not installed here: {install}") from None
    return pandas
