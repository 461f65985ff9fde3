"""TensorBoard's SummaryWriter, which has a thread, a queue and a file: one of an earlier cell is begun anew.

The new one writes a file of its own into the same directory, where TensorBoard reads them together; so do the
notebook's own, which stays as it is, and one that the cell made, which the notebook gets.
"""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any

from ..kind import Kind, Pickler, Reduced
from .instances import INSTANCE, make_instance

_ARGUMENTS = ("log_dir", "purge_step", "max_queue", "flush_secs", "filename_suffix")


def find(cls: type) -> Kind | None:
    return Kind(reduce=_reduce) if issubclass(cls, sys.modules["torch.utils.tensorboard"].SummaryWriter) else None


def _reduce(writer: Any, pickler: Pickler) -> Reduced:
    if writer.file_writer is None and writer.all_writers is None:  # closed
        return make_instance, (type(writer),), INSTANCE.state(writer), None, None, INSTANCE.fill
    writer.flush()
    return make_writer, (type(writer), {name: getattr(writer, name) for name in _ARGUMENTS}, os.getcwd())


def make_writer(cls: Any, arguments: dict[str, Any], directory: str) -> Any:
    writer = cls(**arguments | {"log_dir": os.path.join(directory, arguments["log_dir"])})
    writer.log_dir = arguments["log_dir"]
    atexit.register(writer.flush)  # its thread ends with the process, whatever still waits in its queue
    return writer
