"""The end of a process that has done all it was for: what was left to be done at exit, and then at once.

Python takes everything apart that a process has imported, and then torch's own destructors do: 0.4 s of a processor in
which the process still holds what it held, for memory that the system takes back in a hundredth of a second.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import logging
import os
import re
import stat
import sys
import threading
import weakref
from collections.abc import Collection, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any


def end(variables: MutableMapping[str, Any], ours: Collection[Path], code: int = 0) -> None:
    """Do what an end does that somebody could miss: threads, `atexit`, the variables' own ends, what is buffered.

    Then this returns, and Python ends as ever, where a thread goes on, which must meet nothing that is half gone; and
    where a file is still open that could be written to, and that is not below one of `ours`: a library may hold
    something for it that only its own end writes down (HDF5 does).
    """
    threading._shutdown()  # type: ignore[attr-defined]  # as the children of multiprocessing end
    _leave_out_what_nobody_misses()
    atexit._run_exitfuncs()
    if any(one is not threading.main_thread() and not one.name.startswith("gpufit-") for one in threading.enumerate()):
        return
    variables.clear()
    gc.collect()
    _flush()
    if all(any(path.is_relative_to(own) for own in ours) for path in _writable()):
        os._exit(code)


def _leave_out_what_nobody_misses() -> None:
    """Torch's statistics of what it compiled, unless they are read, and the withdrawal of each of its operations."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is not None and not dynamo.log.isEnabledFor(logging.INFO):
        atexit.unregister(dynamo.dump_compile_times)
    withdraw = getattr(sys.modules.get("torch.library"), "_del_library", None)
    finalizers: dict[Any, Any] = getattr(weakref.finalize, "_registry", {})
    for finalizer, held in finalizers.items():
        if held.func is withdraw:
            finalizer.atexit = False


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # the cell may have put anything there, or closed it
            stream.flush()
    ctypes.CDLL(None).fflush(None)


def _writable() -> list[Path]:
    """The files that are open for writing, and that somebody can find."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        file = Path("/proc/self/fd", name)
        with suppress(OSError):  # that of the listing has gone
            known = file.stat()
            flags = re.search(r"flags:\s*(\d+)", Path("/proc/self/fdinfo", name).read_text())
            writes = flags is not None and int(flags[1], 8) & os.O_ACCMODE != os.O_RDONLY
            if writes and stat.S_ISREG(known.st_mode) and known.st_nlink:
                found.append(file.readlink())
    return found
