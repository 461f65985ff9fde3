"""Writers for TensorBoard have a thread, a queue and a file: one of an earlier cell is begun anew.

A SummaryWriter, torch's or tensorboardX's, or tensorboard's own writer of events, which libraries use by itself.
The new one writes a file of its own into the same directory, where TensorBoard reads them together; so do the
notebook's own, which stays as it is, and one that the cell made, which the notebook gets.
"""

from __future__ import annotations

import atexit
import os
import sys
from types import FunctionType
from typing import Any

from ..kind import Kind, Pickler, Reduced
from .instances import INSTANCE, make_instance

_EVENTS = "tensorboard.summary.writer.event_file_writer"
# The arguments of each SummaryWriter, and the attributes that keep them.
_SAME = ("log_dir", "purge_step", "max_queue", "flush_secs", "filename_suffix")
_ARGUMENTS = {
    "torch.utils.tensorboard": {name: name for name in _SAME},
    "tensorboardX": {"logdir": "logdir", "purge_step": "purge_step"}
    | {name: f"_{name}" for name in ("max_queue", "flush_secs", "filename_suffix", "write_to_disk", "comet_config")},
}


def find(cls: type) -> Kind | None:
    if library_of(cls):
        return Kind(reduce=_reduce, state=own_names, fill=fill_writer)
    return Kind(reduce=reduce_events) if writes_events(cls) else None


def library_of(cls: type) -> str | None:
    """Whose SummaryWriter it is, if it is one."""
    libraries = (name for name in _ARGUMENTS if name in sys.modules)
    return next((name for name in libraries if issubclass(cls, sys.modules[name].SummaryWriter)), None)


def arguments_of(writer: Any) -> dict[str, Any]:
    """With which another one writes what this one would."""
    kept = _ARGUMENTS[library_of(type(writer)) or ""]
    return {argument: getattr(writer, name) for argument, name in kept.items()}


def settle(writer: Any) -> None:
    """Have it write all that it was given: tensorboardX's `flush` leaves out what still waits in its queue."""
    for one in (writer.all_writers or {}).values():
        events: Any = getattr(one, "event_writer", None)
        if type(events).__module__.startswith("tensorboardX") and events._worker is not None:
            thread = events._worker
            thread.stop()
            events._worker = type(thread)(events._event_queue, events._ev_writer, events._flush_secs)
            events._worker.start()
    writer.flush()


def _reduce(writer: Any, pickler: Pickler) -> Reduced:
    if writer.file_writer is None and writer.all_writers is None:  # closed
        return make_instance, (type(writer),), INSTANCE.state(writer), None, None, INSTANCE.fill
    settle(writer)
    return make_writer, (type(writer), arguments_of(writer), os.getcwd()), own_names(writer), None, None, fill_writer


def make_writer(cls: Any, arguments: dict[str, Any], directory: str) -> Any:
    name = directory_argument(arguments)
    writer = another(cls, arguments | {name: os.path.join(directory, arguments[name])})
    setattr(writer, name, arguments[name])
    atexit.register(settle, writer)  # its thread ends with the process, whatever still waits in its queue
    return writer


def own_names(writer: Any) -> dict[str, Any]:
    """What a class of the user's has added to it."""
    base = _base(type(writer))
    made = {name for fn in vars(base).values() if isinstance(fn, FunctionType) for name in fn.__code__.co_names}
    return {name: value for name, value in vars(writer).items() if name not in made}


def fill_writer(writer: Any, own: dict[str, Any]) -> None:
    vars(writer).update(own)


def _base(cls: type) -> Any:
    return sys.modules[library_of(cls) or ""].SummaryWriter


def directory_argument(arguments: dict[str, Any]) -> str:
    return "log_dir" if "log_dir" in arguments else "logdir"


def another(cls: Any, arguments: dict[str, Any]) -> Any:
    """One more writer into a directory. tensorboardX names files by the second, and begins one of that name anew."""
    writer = cls.__new__(cls)  # a class of the user's is made with what it likes
    if "logdir" not in arguments:
        _base(cls).__init__(writer, **arguments)
        return writer
    _base(cls).__init__(writer, **arguments | {"filename_suffix": f"{arguments['filename_suffix']}.{os.getpid()}"})
    writer._filename_suffix = arguments["filename_suffix"]
    return writer


def writes_events(cls: type) -> bool:
    """Whether it is tensorboard's own writer."""
    return _EVENTS in sys.modules and issubclass(cls, sys.modules[_EVENTS].EventFileWriter)


def reduce_events(writer: Any, pickler: Pickler) -> Reduced:
    waits = writer._async_writer
    if waits._closed:
        return make_instance, (type(writer),), {"_logdir": writer._logdir, "_file_name": writer._file_name}
    writer.flush()
    arguments = writer._logdir, waits._byte_queue.maxsize, waits._worker._flush_secs
    return make_events, (type(writer), *arguments, os.getcwd())


def make_events(cls: Any, logdir: str, most: int, seconds: float, directory: str) -> Any:
    writer = cls(os.path.join(directory, logdir), most, seconds)
    writer._logdir = logdir
    atexit.register(_flush, writer)
    return writer


def _flush(writer: Any) -> None:
    if not writer._async_writer._closed:
        writer.flush()
