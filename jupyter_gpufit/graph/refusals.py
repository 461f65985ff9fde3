"""What belongs to one process and cannot travel, and what to do about each."""

from __future__ import annotations

import functools
import sys
import threading
import time
import weakref
from concurrent.futures import Future
from concurrent.futures import thread as pools
from enum import Enum
from types import GeneratorType
from typing import Any

from ..system.objects import module_of
from . import endings, midway
from .kind import Kind, Pickler, Reduced
from .unavailable import Unavailable

INSIDE = "Make it inside the cell"  # says nothing to whoever did, and gets it back
GENERATOR = f"a generator in use, whose position cannot be copied. {INSIDE}, or use a list."
_HELD = f"a lock that a thread of this process holds. {INSIDE}, or release it before."
LOADERS_PLACE = (
    "an iterator of a DataLoader, whose position cannot be copied. Call iter(loader) in the cell that uses it."
)
HOW_MADE = "_gpufit_how_made"  # an iterator's attribute: of a DataLoader, by which it can be made anew
TRAITS = "_trait_values"  # of traitlets: the attribute that has them
LOCKS: tuple[type, ...] = (type(threading.Lock()), type(threading.RLock()))
_BY_TYPE = {  # by the full name of a class or of one of its bases
    "_thread.lock": _HELD,
    "_thread.RLock": _HELD,
    "builtins.async_generator": f"an asynchronous generator, whose position cannot be copied. {INSIDE}.",
    "builtins.coroutine": f"a coroutine, which belongs to this process's event loop. {INSIDE}, or await it before.",
    "builtins.frame": "a stack frame, which cannot be copied. Keep it out of what the cell uses.",
    "builtins.traceback": "a traceback, whose frames cannot be copied. Keep it out of what the cell uses.",
    "builtins.memoryview": "a view of another object's memory. Use that object, or bytes(view).",
    "mmap.mmap": "a mapping of memory. Use np.memmap, which the worker can open again.",
    "threading.Thread": f"a thread of this process. {INSIDE}.",
    "threading.local": f"data of one thread. {INSIDE}.",
    "socket.socket": f"an open socket. {INSIDE}.",
    "subprocess.Popen": f"a process that this one started. {INSIDE}.",
    "torch.utils.data.dataloader._BaseDataLoaderIter": LOADERS_PLACE,
    # Of trackers those that know no way: see snapshot/libraries/trackers.py for the others.
    "comet_ml.experiment.CometExperiment": f"an experiment of Comet, which one process reports. {INSIDE}.",
    "comet_ml.experiment.BaseExperiment": f"an experiment of Comet, which one process reports. {INSIDE}.",
    "neptune.metadata_containers.metadata_container.MetadataContainer": f"a run of Neptune's, open here. {INSIDE}.",
    "neptune_scale.api.run.Run": f"a run of Neptune's, open in this process. {INSIDE}.",
    "aim.sdk.run.BasicRun": f"a run of Aim's, which one process has open. {INSIDE}.",
    "dvclive.live.Live": f"a DVCLive logger, which one process writes. {INSIDE}.",
    "trackio.run.Run": f"a run of Trackio's, which one process reports. {INSIDE}.",
    "swanlab.sdk.internal.run.Run": f"a run of SwanLab's, which one process reports. {INSIDE}.",
    "jupyter_gpufit.graph.unavailable.Unavailable": (
        "what is left of an object that stayed in an earlier cell's worker. Make it anew, or delete it."
    ),
}
_BY_MODULE = {  # by the module of a class or of one of its bases; inner modules included
    "ctypes": f"a handle of a C library, good in this process only. {INSIDE}.",
    "_ctypes": f"a handle of a C library, good in this process only. {INSIDE}.",
    "_thread": f"a handle of a thread. {INSIDE}.",
    "_queue": f"a queue between threads of this process. {INSIDE}.",
    "asyncio": f"part of this process's event loop. {INSIDE}.",
    "_asyncio": f"part of this process's event loop. {INSIDE}.",
    "concurrent.futures": f"a pool or future of this process. {INSIDE}.",
    "multiprocessing": f"a handle of this process's children. {INSIDE}.",
    "ssl": f"an open connection. {INSIDE}.",
    "_ssl": f"an open connection. {INSIDE}.",
    "select": f"a handle of open files. {INSIDE}.",
    "selectors": f"a handle of open files. {INSIDE}.",
    "zmq": f"an open connection. {INSIDE}.",
    "IPython": "a part of the notebook's own kernel. The cell has its own: use get_ipython() inside it.",
    "ipykernel": "a part of the notebook's own kernel. The cell has its own: use get_ipython() inside it.",
}
_TRAVELS = frozenset(  # no handle in them
    ("multiprocessing.context", "IPython.core.display", "IPython.core.display_functions", "IPython.lib.display")
    + ("IPython.utils.capture", "IPython.utils.text")
    + ("ipykernel.iostream",)  # where sys.stdout is from: each process has its own (kinds/odd.py)
)


@functools.cache
def _sentence(module: str, name: str) -> str | None:
    if module in _TRAVELS:
        return None
    if sentence := _BY_TYPE.get(f"{module}.{name}"):
        return sentence
    parts = module.split(".")
    return next((found for end in range(len(parts)) if (found := _BY_MODULE.get(".".join(parts[: end + 1])))), None)


def why_not(cls: type) -> str | None:
    """Why objects of this class cannot travel, or None."""
    if issubclass(cls, (type, BaseException, Enum)):
        return None  # these can, whatever module they are from
    for base in cls.__mro__:
        if sentence := _sentence(module_of(base), base.__qualname__):
            return sentence
    return None


def is_of_its_own_kind(reference: Any) -> bool:
    """Whether nobody but its class knows how a weak reference is made."""
    return type(reference) not in (weakref.ref, weakref.WeakMethod)


def is_held(lock: Any) -> bool:
    """Whether any thread holds it, this one included."""
    if hasattr(lock, "locked"):  # Python's RLock cannot say it until 3.14
        return bool(lock.locked())
    if lock._is_owned() or not lock.acquire(blocking=False):
        return True
    lock.release()
    return False


def is_idle(pool: Any) -> bool:
    """Whether a ThreadPoolExecutor has nothing to do; one that has just done something may take a moment."""
    for _ in range(20):
        alive = [thread for thread in pool._threads if thread.is_alive()]
        if not alive if pool._shutdown else pool._work_queue.empty() and all(map(waits_in_a_pool, alive)):
            return True
        time.sleep(0.001)
    return False


def waits_in_a_pool(thread: threading.Thread) -> bool:
    """A pool keeps its threads, which hold nothing while it has nothing to do; one of processes has one to lead it."""
    if "pending_work_items" in vars(thread):  # of concurrent.futures' and of loky's, joblib's
        return not vars(thread)["pending_work_items"]
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None:
        return True  # it has just ended
    tasks = pools._threads_queues.get(thread)
    return tasks is not None and tasks.empty() and frame.f_code is pools._worker.__code__


def is_widget(cls: type) -> bool:
    named = (base for base in cls.__mro__ if base.__name__ == "Widget")
    return any(module_of(base).partition(".")[0] == "ipywidgets" for base in named)


def stays(obj: Any) -> bool:
    """Whether this very object cannot travel, whatever it leads to."""
    if is_widget(type(obj)):  # one that a worker's cell made: its line says so
        return bool(getattr(vars(obj).get(TRAITS, {}).get("comm"), "stays", False))
    if type(obj) in LOCKS:
        return is_held(obj)
    if type(obj) is pools.ThreadPoolExecutor:
        return not is_idle(obj)
    if type(obj) is GeneratorType:
        return midway.stays(obj)
    if type(obj) is Future:
        return not obj.done()
    if isinstance(obj, weakref.ref):
        return is_of_its_own_kind(obj)
    if endings.kind_of(type(obj)):
        return not endings.has_ended(obj)
    return why_not(type(obj)) is not None and HOW_MADE not in getattr(obj, "__dict__", ())


def refuse(obj: Any, pickler: Pickler) -> Reduced:
    sentence = why_not(type(obj))
    assert sentence is not None
    return pickler.refuse(obj, sentence)


REFUSED = Kind(reduce=refuse)
assert f"{Unavailable.__module__}.{Unavailable.__qualname__}" in _BY_TYPE


def find(cls: type) -> Kind | None:
    return REFUSED if why_not(cls) else None
