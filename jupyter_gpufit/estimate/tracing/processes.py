"""Other processes of a traced cell run in this one, one after the other: only here is there a device that counts.

Those that answer through a pipe run in threads, by turns (see serving.py).

What a process waits for can then never come, so a wait that nobody can end ends the process. Not modelled: that each
would have a context of its own on the device; a note says how many there were.
"""

from __future__ import annotations

import importlib
import mmap
import multiprocessing.heap
import multiprocessing.managers
import multiprocessing.pool
import multiprocessing.queues
import multiprocessing.synchronize
import os
import queue
import threading
import time
import types
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from ...cuda.stand_in.shim import CudaShim
from . import serving
from .books import Books
from .shapes_told import kernels

_PATIENCE = 1.0  # seconds in which a thread of this process may still put something into a queue
_RECURSIVE = 0  # a kind of SemLock: an RLock; the other is a semaphore


class Waits(BaseException):
    """A process waits for another; what for."""


def begin(books: Books) -> None:
    _run_in_place(books)
    serving.begin()
    _without_semaphores()
    _without_shared_memory()
    multiprocessing.queues.Queue.get = _impatient(multiprocessing.queues.Queue.get)  # type: ignore[method-assign]
    for name, method in vars(_Pool).items():
        if not name.startswith("__") or name in ("__init__", "__enter__", "__exit__", "__del__"):
            setattr(multiprocessing.pool.Pool, name, method)
    ProcessPoolExecutor.submit = _submitted_in_place  # type: ignore[method-assign]


def _run_in_place(books: Books) -> None:
    def start(self: Any) -> None:
        books.notes["other processes run one after the other in this one"] += 1
        self._closed = False
        if serving.serves(self):
            there = serving.with_own_ends(self)
            self._popen = serving.Serving(lambda: in_a_thread(there))
        else:
            self._popen = _Ended()
            run(self)

    def run(process: Any) -> None:
        try:
            process.run()
        except Waits:
            books.notes["another process left where it waits"] += 1
        except SystemExit:
            pass

    def in_a_thread(process: Any) -> None:
        try:
            with CudaShim(books.card, kernels(books)), books:
                run(process)
        except Exception as error:  # whoever waits for it finds its pipe closed
            books.notes[f"another process failed: {type(error).__name__}"] += 1

    def spawn(fn: Callable[..., Any], args: Any = (), nprocs: int = 1, *rest: Any, **options: Any) -> Any:
        """The first of them; the others would be on other devices, or do the same on this one."""
        books.notes[f"the first of {nprocs} processes run in this one"] += 1
        fn(0, *args)
        return types.SimpleNamespace(join=lambda *args, **kwargs: True, processes=[], pids=lambda: [])

    BaseProcess.start = start  # type: ignore[method-assign]
    for module in (torch.multiprocessing, importlib.import_module("torch.multiprocessing.spawn")):
        vars(module).update(spawn=spawn, start_processes=spawn)


class _Ended:
    """What a process object asks of its process."""

    returncode = 0
    sentinel = -1
    pid = os.getpid()

    def poll(self, *args: object) -> int:
        return 0

    wait = poll

    def close(self) -> None: ...

    terminate = kill = close


def _submitted_in_place(self: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
    done: Future[Any] = Future()
    try:
        done.set_result(fn(*args, **kwargs))
    except Exception as error:
        done.set_exception(error)
    return done


class _Pool:
    """The methods of multiprocessing's: each task is done when it is given."""

    def __init__(
        self, processes: object = None, initializer: Any = None, initargs: Any = (), *rest: object, **options: object
    ) -> None:
        if initializer is not None:
            initializer(*initargs)

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *args: object) -> None: ...

    def __del__(self) -> None: ...

    def apply(self, func: Callable[..., Any], args: Any = (), kwds: Any = None) -> Any:
        return func(*args, **(kwds or {}))

    def map(self, func: Callable[..., Any], iterable: Any, chunksize: Any = None) -> list[Any]:
        return [func(item) for item in iterable]

    def starmap(self, func: Callable[..., Any], iterable: Any, chunksize: Any = None) -> list[Any]:
        return [func(*item) for item in iterable]

    def imap(self, func: Callable[..., Any], iterable: Any, chunksize: Any = 1) -> _Results:
        return _Results(map(func, iterable))

    imap_unordered = imap

    def apply_async(
        self,
        func: Callable[..., Any],
        args: Any = (),
        kwds: Any = None,
        callback: Any = None,
        error_callback: Any = None,
    ) -> _Result:
        return _Result(lambda: self.apply(func, args, kwds), callback, error_callback)

    def map_async(
        self,
        func: Callable[..., Any],
        iterable: Any,
        chunksize: Any = None,
        callback: Any = None,
        error_callback: Any = None,
    ) -> _Result:
        return _Result(lambda: self.map(func, iterable), callback, error_callback)

    def starmap_async(
        self,
        func: Callable[..., Any],
        iterable: Any,
        chunksize: Any = None,
        callback: Any = None,
        error_callback: Any = None,
    ) -> _Result:
        return _Result(lambda: self.starmap(func, iterable), callback, error_callback)

    def close(self) -> None: ...

    terminate = join = close


class _Results:
    """What `imap` gives: an iterator that can also be asked for the next one within a time."""

    def __init__(self, made: Iterator[Any]) -> None:
        self._made = made

    def __iter__(self) -> _Results:
        return self

    def __next__(self) -> Any:
        return next(self._made)

    def next(self, timeout: Any = None) -> Any:
        return next(self._made)


class _Result:
    """What came of a task; its error is for whoever asks for it."""

    def __init__(self, task: Callable[[], Any], callback: Any, error_callback: Any) -> None:
        self._made, self._error = None, None
        try:
            self._made = task()
        except Exception as error:
            self._error, told = error, error_callback
        else:
            told = callback
        if told is not None:
            told(self._made if self._error is None else self._error)

    def get(self, timeout: Any = None) -> Any:
        if self._error is not None:
            raise self._error
        return self._made

    def wait(self, timeout: Any = None) -> None: ...

    def ready(self) -> bool:
        return True

    def successful(self) -> bool:
        return self._error is None


def _is_impatient() -> bool:
    """Not in a thread of the cell's own: what it waits for comes from the cell (tensorboardX writes in one)."""
    return threading.current_thread() is threading.main_thread() or serving.serves_here()


def _impatient(real: Callable[..., Any]) -> Callable[..., Any]:
    def get(self: Any, block: bool = True, timeout: float | None = None) -> Any:
        if not _is_impatient():
            return real(self, block, timeout)
        end = time.monotonic() + min(_PATIENCE, timeout if timeout is not None else _PATIENCE)
        while block:
            try:
                return real(self, True, max(0.01, end - time.monotonic()))
            except queue.Empty:
                if time.monotonic() >= end:
                    raise Waits("an entry of a queue") from None
        return real(self, False)

    return get


def _without_semaphores() -> None:
    """Named ones are files, and an estimate makes none."""
    names = vars(vars(multiprocessing.synchronize)["_multiprocessing"]) | {"SemLock": _Semaphore}
    vars(multiprocessing.synchronize)["_multiprocessing"] = types.SimpleNamespace(**names)
    plain = {"dict": dict, "list": list, "Queue": queue.Queue, "Namespace": types.SimpleNamespace}
    plain |= {name: getattr(threading, name) for name in ("Lock", "RLock", "Event", "Condition", "Semaphore")}
    for name, kind in plain.items():
        setattr(multiprocessing.managers.SyncManager, name, staticmethod(kind))

    def start(self: Any, *args: object, **kwargs: object) -> None:
        self._state.value, self.shutdown = vars(multiprocessing.managers)["State"].STARTED, lambda: None

    multiprocessing.managers.BaseManager.start = start  # type: ignore[method-assign]


class _Semaphore:
    """`_multiprocessing.SemLock` among threads."""

    SEM_VALUE_MAX = (1 << 31) - 1
    handle = 0

    def __init__(self, kind: int, value: int, maxvalue: int, name: str, unlink: bool) -> None:
        self.kind, self.maxvalue, self.name = kind, maxvalue, name
        self._changed = threading.Condition()
        self._value, self._holder, self._depth = value, 0, 0

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        me = threading.get_ident()
        with self._changed:
            if self.kind == _RECURSIVE and self._holder == me and self._depth:
                self._depth += 1
                return True
            patience = timeout
            if _is_impatient():
                patience = _PATIENCE if timeout is None else min(timeout, _PATIENCE)
            if not self._changed.wait_for(lambda: self._value > 0, patience if block else 0):
                if block and timeout is None:
                    raise Waits("a lock, or a semaphore")
                return False
            self._value -= 1
            self._holder, self._depth = me, self._depth + 1
            return True

    def release(self) -> None:
        with self._changed:
            self._depth -= 1
            if self.kind != _RECURSIVE or not self._depth:
                self._value += 1
                self._changed.notify()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *args: object) -> None:
        self.release()

    def _is_mine(self) -> bool:
        return self._depth > 0 and self._holder == threading.get_ident()

    def _count(self) -> int:
        return max(0, self._depth)

    def _get_value(self) -> int:
        return self._value

    def _is_zero(self) -> bool:
        return self._value == 0

    def _after_fork(self) -> None: ...


def _without_shared_memory() -> None:
    """It would be a file, too; and all processes are this one."""
    multiprocessing.heap.Arena.__init__ = _in_this_memory  # type: ignore[method-assign]
    for kind in (torch.Tensor, torch.UntypedStorage, torch.TypedStorage):
        kind.share_memory_ = lambda self: self  # type: ignore[method-assign]
        kind.is_shared = lambda self: True  # type: ignore[method-assign]
    torch.nn.Module.share_memory = lambda self: self  # type: ignore[method-assign]


def _in_this_memory(self: Any, size: int, fd: int = -1) -> None:
    """Of what multiprocessing shares by itself, as its Array does."""
    self.size, self.fd, self.buffer = size, -1, mmap.mmap(-1, size)
