"""What cannot be saved is named, with all there is of it at once; what can be saved later is only put off."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from jupyter_gpufit.errors import CannotSave
from jupyter_gpufit.program import Program
from jupyter_gpufit.snapshot.take import preflight
from tests.graph.crossing import notebook

from .training import Trainings

TORCH = "import torch\nfrom torch import nn\nmodel = nn.Linear(2, 2)\n"


THREAD = """
import threading
go = threading.Event()
t = threading.Thread(target=go.wait, name="mine")
t.start()
for i in range(2):
    pass
go.set()
"""


POOL = """
import atexit
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(1)
atexit.register(pool.shutdown)  # keeps it, as a library would, where nothing of the cell's refers to it
pool.submit(len, "abc").result()
"""
IDLE = (
    POOL
    + """
del pool
for i in range(2):
    pass
"""
)
ANSWERED = """
from tests.graph.vectors import Vector
[envs] = map(Vector, [[lambda: 1]])  # there it cannot be left
envs.links[0].send(1)
envs.links[0].poll(300)
for i in range(2):
    pass
"""
BUSY = (
    POOL
    + """
import threading
began, go = threading.Event(), threading.Event()
def work():
    began.set()
    go.wait()
pool.submit(work)
began.wait()
for i in range(2):
    pass
go.set()
"""
)


def problems(cell: str) -> dict[str, str]:
    namespace = notebook(cell)
    try:
        return dict(preflight(Program(namespace), namespace))
    finally:
        for held in (namespace, namespace.get("srv", {}), vars(namespace.get("db", Program))):
            for one in held.values():
                if hasattr(one, "close") and not isinstance(one, type | ModuleType):
                    one.close()


@pytest.mark.parametrize(
    ("cell", "path", "what"),
    [
        (
            TORCH + "import threading; model.cb = {'q': [1, threading.Lock()]}; model.cb['q'][1].acquire()",
            "model.cb['q'][1]",
            "a lock",
        ),
        ("import socket; srv = {'s': socket.socket()}", "srv['s']", "socket"),
        (
            "import sqlite3 as s\nd = s.connect(''); d.execute('create table t (a)'); d.execute('delete from t')",
            "d",
            "in the midst",
        ),
        ("import queue; q = queue.SimpleQueue()", "q", "a queue"),
        ("import ctypes; h = [ctypes.CDLL(None)]", "h[0]", "a handle of a C library"),
        ("it = (n for n in 'ab' for m in 'c'); next(it)", "it", "a generator (<genexpr>, line 1)"),
        (
            "from threading import Lock\nl = Lock(); l.acquire()\ndef f(l=l): pass\ndef g(): return f\nk = [g]; del l",
            "f.<default>",
            "a lock",
        ),
        ("import os; r = os.fdopen(os.pipe()[0])", "r", "a pipe"),
        ("import weakref\nclass D: pass\nclass W(weakref.ref): pass\nd = D(); w = W(d)", "w", "weak reference"),
        ("import gzip, io; z = gzip.GzipFile(fileobj=io.BytesIO(), mode='wb')", "z", "an open file"),
        ("import threading; t = threading.Thread(target=print)", "t", "a thread"),
        ("import math; was, math.ulp = math.ulp, print", "was", "the ulp() of Python's own"),
        ("from contextvars import ContextVar; t = ContextVar('v').set(1)", "t", "Token"),
    ],
)
def test_is_named_by_its_place(cell: str, path: str, what: str) -> None:
    found = problems(cell)

    assert path in found and what in found[path], found
    assert len(found[path].split(". ")) > 1, "and there is no word of what to do"


def test_a_process_is_named_for_as_long_as_it_runs() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        namespace: dict[str, Any] = {"child": child}
        assert "a process" in dict(preflight(Program(namespace), namespace))["child"]
    assert not preflight(Program(namespace), namespace)


def test_all_are_named_at_once() -> None:
    found = problems(
        "import threading\na = threading.Lock()\nb = [threading.RLock()]\na.acquire(); b[0].acquire()\nfine = 1\n"
    )

    assert set(found) == {"a", "b[0]"}
    assert str(CannotSave(tuple(found.items()))).count("\n") == 2


@pytest.mark.parametrize(
    "cell",
    [
        "import functools, collections\nP = collections.namedtuple('P', 'a')\nf = functools.partial(lambda x: x, P(1))",
        "import abc\nclass A(abc.ABC):\n    @abc.abstractmethod\n    def f(self): 1\nclass B(A):\n    f = 1\nb = B()",
        "class S:\n    __slots__ = ('a', '__weakref__')\ns = S(); s.a = s",
        "import logging; log = logging.getLogger('some'); h = logging.StreamHandler()",
        "import itertools; a, b = itertools.tee([1, 2]); c = itertools.count()",
        "big = [1 << 70, -(1 << 40), 140_000_000_000_000] * 100",
        "from IPython.display import DisplayHandle; shown = DisplayHandle()",
        "it = (n for n in range(3)); next(it)",
        "import torch; f = [torch.sum, torch.softmax, len, [].append, dict.fromkeys, torch.Tensor.add_]",
        "import sys; w, f = sys.stdout.write, sys.stderr.flush",
        "import queue, threading; q, e = queue.Queue(), threading.Event(); q.put(1)",
        "import tempfile, numpy; p = tempfile.mkdtemp() + '/a.npz'; numpy.savez(p); d = numpy.load(p)",
        TORCH + "nodecay = {'ids': {id(p) for p in model.parameters()}}",
        TORCH + "scalers = [torch.amp.GradScaler('cpu', enabled=e) for e in (True, False)]",
        TORCH + "loss = model(torch.ones(2)).sum(); loss.backward(); total = 0.0 + loss",
        TORCH + "s, c = torch.eye(3).to_sparse(), torch.ones(2, dtype=torch.complex64).conj()",
        TORCH + "m, lazy, r = torch.empty(3, device='meta'), nn.LazyLinear(3), nn.LSTM(2, 2)",
        TORCH + "p = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))",
    ],
)
def test_can_be_saved(cell: str) -> None:
    assert problems(cell) == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cell", "why"),
    [
        (
            "total = model(torch.ones(2)).sum()\nfor i in range(2): pass\ntotal.backward()",
            "total is a tensor that still carries its autograd",
        ),
        ("with torch.autocast('cpu', dtype=torch.bfloat16):\n    for i in range(2): model(torch.ones(2))", "autocast"),
        (THREAD, "the thread 'mine'"),
        (BUSY, "the thread 'ThreadPoolExecutor"),
        (ANSWERED, "there is a Vector with processes of its own, of which one could not be asked: a message of it is"),
    ],
)
def test_is_put_off(cell: str, why: str, trainings: Trainings, tmp_path: Path) -> None:
    left = trainings.run(TORCH + cell, at=1, save=tmp_path)

    assert left.error.startswith("NotHere") and why in left.error


@pytest.mark.slow
def test_an_idle_thread_of_a_pool_puts_nothing_off(trainings: Trainings, tmp_path: Path) -> None:
    assert not trainings.run(TORCH + IDLE, at=1, save=tmp_path).error


BESIDE = """
import functools, sys, threading, time, weakref
def watch(): time.sleep(600)
def bye(): 1
class Held: pass
held = Held()
weakref.finalize(held, bye)
threading.Thread(target=watch, name="beside", daemon=True).start()
@functools.cache
def opened(path): return open(path)
opened("/dev/zero")
for i in range(3): pass
"""


@pytest.mark.slow
def test_what_does_not_go_along_is_told(trainings: Trainings, tmp_path: Path) -> None:
    left = trainings.run(BESIDE, at=1, look=True, save=tmp_path)

    assert not left.error and len(left.remarks) == 3
    for what, remark in zip(("opened() keeps", "thread 'beside'", "is to call bye()"), left.remarks, strict=True):
        assert what in remark


PREFETCHES = """
import queue, threading, time
class Ahead:
    def __init__(self, first):
        self.q = queue.Queue(2)
        self.first = first
        threading.Thread(target=self.run, name="ahead", daemon=True).start()
    def run(self):
        for i in range(self.first):
            self.q.put(i)
        time.sleep(600)
    def __iter__(self):
        while True:
            yield self.q.get()
for i in Ahead({first}):
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("first", [9, 2])
def test_a_thread_that_the_training_waits_for_is_named_whether_it_waits_or_works(
    first: int, trainings: Trainings, tmp_path: Path
) -> None:
    left = trainings.run(PREFETCHES.format(first=first), at=1, save=tmp_path)

    assert left.error.startswith("CannotSave")
    assert "q: a Queue that the thread 'ahead' uses, which the cell started. No checkpoint can hold" in left.error


@pytest.mark.slow
def test_a_variable_of_a_running_function_is_named(trainings: Trainings, tmp_path: Path) -> None:
    cell = (
        "import threading\ndef train():\n    held = {'lock': threading.Lock()}\n"
        "    held['lock'].acquire()\n    for i in range(3): pass\ntrain()\n"
    )

    left = trainings.run(cell, at=1, save=tmp_path)

    assert left.error.startswith("CannotSave") and "held of train()['lock']: a lock" in left.error


@pytest.mark.slow
def test_what_only_a_modules_function_holds_may_pass(trainings: Trainings, tmp_path: Path) -> None:
    cell = "from tests.snapshot.beside.engine import asks_around\nasks_around('ab')\nfor i in range(2): pass\n"

    left = trainings.run(cell, at=1, save=tmp_path)

    assert left.error.startswith("CannotSave") and "lock of asks_around(): a lock" in left.error
    assert "This may pass" in left.error
    assert not trainings.run(cell, at=4, save=tmp_path).error


IN_A_FUNCTION = """
from multiprocessing import Pipe
class Sends:
    def __init__(self): self.ends = Pipe()
    def __reduce__(self): return Sends, ()
    def send(self):
        for end in self.ends: end.fileno()
sends = Sends()
sends.send()
for i in range(2): pass
"""


@pytest.mark.slow
def test_what_only_a_function_of_the_notebook_holds_may_pass(trainings: Trainings, tmp_path: Path) -> None:
    left = trainings.run(IN_A_FUNCTION, at=1, save=tmp_path)

    assert left.error.startswith("CannotSave") and "This may pass" in left.error
    assert not trainings.run(IN_A_FUNCTION, at=4, save=tmp_path).error
