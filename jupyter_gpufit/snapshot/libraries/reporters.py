"""What a training reports through: bars, displays that it updates, log files, TensorBoard, Lightning's own."""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...graph.kind import Kind, Reduced
from ...graph.kinds.instances import INSTANCE, make_instance
from ...graph.kinds.writers import (
    another,
    arguments_of,
    directory_argument,
    fill_writer,
    library_of,
    own_names,
    reduce_events,
    settle,
    writes_events,
)
from ...system.objects import module_of

if TYPE_CHECKING:
    from ..pickler import SnapshotPickler

_RICH_BARS = {
    f"{lightning}.callbacks.progress.rich_progress.RichProgressBar"
    for lightning in ("lightning.pytorch", "pytorch_lightning")
}
_CSV_WRITERS = {f"{fabric}.loggers.csv_logs._ExperimentWriter" for fabric in ("lightning.fabric", "lightning_fabric")}
_CLOCKS = ("start_t", "last_print_t")  # of a bar, in seconds since 1970


def find(cls: type) -> Kind | None:
    bar = getattr(sys.modules.get("tqdm.std"), "tqdm", None)
    if bar is not None and issubclass(cls, bar):
        return Kind(reduce=reduce_bar)
    if issubclass(cls, logging.Handler):
        return Kind(reduce=reduce_handler)
    names = {f"{module_of(base)}.{base.__qualname__}" for base in cls.__mro__}
    if names & _RICH_BARS:
        return Kind(reduce=reduce_rich_bar)
    if names & _CSV_WRITERS:
        return Kind(reduce=reduce_csv_writer)
    if library_of(cls):
        return Kind(reduce=reduce_summary)
    return Kind(reduce=reduce_event_file) if writes_events(cls) else None


# A bar is among all bars, which share the lines of the terminal, and it has a clock.
def reduce_bar(bar: Any, pickler: SnapshotPickler) -> Reduced:
    shown = bar in getattr(type(bar), "_instances", ())
    return make_bar, (type(bar), shown), (dict(vars(bar)), time.time()), None, None, fill_bar


def make_bar(cls: Any, shown: bool) -> Any:
    return cls.__new__(cls) if shown else make_instance(cls)  # either way the class has its lock


def fill_bar(bar: Any, state: tuple[dict[str, Any], float]) -> None:
    own, then = state
    passed = time.time() - then
    vars(bar).update(own)
    vars(bar).update({name: own[name] + passed for name in _CLOCKS if name in own})


# A handler has a lock, and is known to logging by weak references, so that it is flushed at the end.
def reduce_handler(handler: logging.Handler, pickler: SnapshotPickler) -> Reduced:
    own = {name: value for name, value in vars(handler).items() if name != "lock"}
    return make_instance, (type(handler),), own, None, None, fill_handler


def fill_handler(handler: logging.Handler, own: dict[str, Any]) -> None:
    vars(handler).update(own)
    handler.createLock()
    logging._addHandlerRef(handler)  # type: ignore[attr-defined]
    if handler.name:
        logging._handlers[handler.name] = handler  # type: ignore[attr-defined]


# Lightning's bar is drawn by a console with locks. It is drawn anew, as Lightning does it where it resumes in an epoch.
_DRAWN = ("progress", "_console", "_metric_component")


def reduce_rich_bar(bar: Any, pickler: SnapshotPickler) -> Reduced:
    own = {name: None if name in _DRAWN else value for name, value in vars(bar).items()}
    shown = bar.progress is not None and not bar._progress_stopped
    return make_instance, (type(bar),), (pickler.restoring, own, shown), None, None, fill_rich_bar


def fill_rich_bar(bar: Any, state: tuple[Any, dict[str, Any], bool]) -> None:
    restoring, own, shown = state
    vars(bar).update(own)
    if shown:
        restoring.last.append(lambda: bar._init_progress(bar.trainer))


# Lightning's metrics.csv is open only while it is written, and gets another head and longer lines when there is a new
# metric: what a lost part of the training did to it does not fit what comes then.
def reduce_csv_writer(writer: Any, pickler: SnapshotPickler) -> Reduced:
    local = type(writer._fs).__name__ == "LocalFileSystem"
    path = Path(writer.metrics_file_path).absolute() if local else None
    content = path.read_bytes() if path is not None and path.is_file() else None
    state = (pickler.restoring, INSTANCE.state(writer), path, content)
    return make_instance, (type(writer),), state, None, None, fill_csv_writer


def fill_csv_writer(writer: Any, state: tuple[Any, Any, Path | None, bytes | None]) -> None:
    restoring, own, path, content = state
    INSTANCE.fill(writer, own)
    if path is not None:
        restoring.last.append(lambda: _put_back(path, content))


def _put_back(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


# A SummaryWriter has a thread and a queue. Its files are cut back to what they held; a new one is begun beside them.


def reduce_summary(writer: Any, pickler: SnapshotPickler) -> Reduced:
    if writer.file_writer is None and writer.all_writers is None:
        return make_instance, (type(writer),), INSTANCE.state(writer), None, None, INSTANCE.fill  # closed
    settle(writer)
    arguments = arguments_of(writer)
    name = directory_argument(arguments)
    arguments[name] = os.path.abspath(arguments[name])
    for path in filter(None, map(_event_file, (writer.all_writers or {}).values())):
        pickler.take_file(path, read=False)
    return another, (type(writer), arguments), own_names(writer), None, None, fill_writer


def reduce_event_file(writer: Any, pickler: SnapshotPickler) -> Reduced:
    made = reduce_events(writer, pickler)
    if os.path.exists(path := os.path.abspath(writer._file_name)):
        pickler.take_file(path, read=False)
    return made


def _event_file(file_writer: Any) -> str | None:
    events = getattr(file_writer, "event_writer", None)
    found = getattr(getattr(events, "_ev_writer", events), "_file_name", None)  # tensorboardX's has another inside
    return os.path.abspath(found) if found and os.path.exists(found) else None
