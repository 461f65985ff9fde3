"""What cannot travel is found before anything starts, and named so that one knows what to change."""

from __future__ import annotations

import io
import socket
import sqlite3
import subprocess
import sys
import weakref
from pathlib import Path
from types import CoroutineType
from typing import Any

import pytest

from jupyter_gpufit.errors import CannotTravel
from jupyter_gpufit.graph import LeftBehind, Reply, Unavailable, receive, ship, what_stayed

from .crossing import cross_here, notebook

CASES = {
    "a lock in a model's list": (
        "import threading\nclass M: pass\nmodel = M(); q = [1, threading.Lock()]; model.cb = {'q': q}; q[1].acquire()",
        "model.cb['q'][1]",
        "a lock",
    ),
    "a lock": ("import threading\nx = threading.RLock(); x.acquire()", "x", "of this process holds"),
    "a lock in a closure": (
        "import threading\ndef f():\n    l = threading.Lock(); l.acquire()\n    return lambda: l\ng = f()",
        "g.<l>",
        "a lock",
    ),
    "an event that is waited for": (
        "import threading\nx = [threading.Event()]\nw = threading.Lock(); w.acquire(); x[0]._cond._waiters.append(w)",
        "x[0]._cond._waiters[0]",
        "a lock",
    ),
    "a thread": ("import threading\nclass T(threading.Thread): pass\nx = T()", "x", "a thread of this process"),
    "a queue in C": ("import queue\nx = queue.SimpleQueue()", "x", "a queue"),
    "a file of h5py that is written": (
        "import h5py\nx = h5py.File('x', 'w', driver='core', backing_store=False)\nx['a'] = 1; x = [x['a']]",
        "x[0]",
        "Close it before",
    ),
    "a socket": ("import socket\nx = {'s': socket.socket()}", "x['s']", "an open socket. Make it inside the cell"),
    "a generator": ("x = (i for i in range(3) for j in range(2)); next(x)", "x", "a generator in use"),
    "a coroutine": ("async def f(): ...\nx = f()", "x", "a coroutine"),
    "an open file": ("x = open('/dev/zero', 'rb')", "x", "an open file"),
    "a database in a transaction": (
        "import sqlite3 as s\nx = s.connect(':memory:'); x.execute('create table t (a)'); x.execute('delete from t')",
        "x",
        "Commit it before",
    ),
    "a database with another": (
        "import sqlite3\nx = sqlite3.connect(':memory:'); x.execute(\"attach ':memory:' as other\")",
        "x",
        "others attached",
    ),
    "a cursor that has a result": (
        "import sqlite3\nx = sqlite3.connect(':memory:').execute('select 1')",
        "x",
        "not be read to its end",
    ),
    "an lmdb environment that is written": (
        "import lmdb, tempfile\nx = lmdb.open(tempfile.mkdtemp())",
        "x",
        "readonly=True",
    ),
    "a C library": ("import ctypes\nx = ctypes.CDLL(None)", "x", "a handle of a C library"),
    "a process": ("import subprocess\nx = subprocess.Popen(['cat'], stdin=-1)", "x", "a process that this one started"),
    "a closed queue": ("import multiprocessing as m\nx = m.Queue(); x.close()", "x", "this process's children"),
    "a pool": ("from concurrent.futures import *\nx = ProcessPoolExecutor(1)", "x", "a pool or future"),
    "a view of memory": ("x = memoryview(b'abc')", "x", "bytes(view)"),
    "a weak reference of its own kind": (
        "import weakref\nclass A: pass\nclass R(weakref.ref): pass\na = A(); x = R(a)",
        "x",
        "a R, a weak reference of its own kind",
    ),
    "what refuses by itself": (
        "class A:\n    def __reduce__(self): raise TypeError('not me')\nx = (1, A())",
        "x[1]",
        "not me",
    ),
    "what stayed in a worker": ("from jupyter_gpufit.graph import Unavailable\nx = Unavailable('a lock')", "x", "anew"),
}


@pytest.mark.parametrize(("before", "path", "why"), CASES.values(), ids=CASES)
def test_refuses_and_says_what_to_do(before: str, path: str, why: str) -> None:
    namespace = notebook(before)

    with pytest.raises(CannotTravel) as caught:
        ship([path.split(".")[0].split("[")[0]], namespace)

    assert (caught.value.path, caught.value.others) == (path, ())
    assert why in caught.value.why
    _close(namespace)


def test_names_everything_that_cannot_travel_at_once() -> None:
    namespace = notebook(
        "import threading\ng = (i for i in 'xy' for j in i); next(g)\n"
        "a = threading.Lock(); a.acquire(); b = [a, g]; c = 1"
    )

    with pytest.raises(CannotTravel) as caught:
        ship(["a", "b", "c"], namespace)

    assert [error.path for error in (caught.value, *caught.value.others)] == ["a", "b[1]"]
    assert str(caught.value).endswith("\nNothing was started.")


def test_says_which_function_needs_the_name() -> None:
    namespace = notebook("import threading\nlock = threading.Lock(); lock.acquire()\ndef work():\n    with lock: pass")

    with pytest.raises(CannotTravel, match=r"lock cannot travel.*The function work uses lock"):
        ship(["work"], namespace)


@pytest.mark.slow
def test_takes_what_a_module_keeps_of_its_last_forward_and_refuses_a_gradient_to_it() -> None:
    namespace = notebook(
        "import torch\nnet = torch.nn.Linear(2, 2)\nnet.last = [net(torch.ones(1, 2)).pow(2)]\nkept = net.last[0]"
    )
    expected, graph = namespace["kept"].tolist(), namespace["kept"].grad_fn

    cross_here(
        namespace,
        """
seen = net.last[0].tolist(), net.last[0].requires_grad
try:
    net(net.last[0]).sum().backward()
except Exception as error:
    said = str(error)
else:
    said = ''""",
        "net",
        "torch",
    )

    assert namespace["seen"] == (expected, True) and "autograd graph stayed where that ran" in namespace["said"]
    assert namespace["net"].last[0] is namespace["kept"] and namespace["kept"].grad_fn is graph
    namespace["kept"].sum().backward()


@pytest.mark.slow
@pytest.mark.parametrize("names", [["net", "kept"], ["kept", "net"]])
def test_refuses_it_by_its_own_name_in_whichever_order(names: list[str]) -> None:
    namespace = notebook(
        "import torch\nnet = torch.nn.Linear(2, 2)\nnet.last = [net(torch.ones(1, 2)).pow(2)]\nkept = net.last[0]"
    )
    ship(["net"], namespace)
    with pytest.raises(CannotTravel, match="live autograd graph"):
        ship(names, namespace)


@pytest.mark.slow
@pytest.mark.parametrize("more", ["as_subclass(Own)", "retain_grad()", "register_hook(print)"])
def test_refuses_of_a_last_forward_what_would_lose_its_gradients_or_hooks(more: str) -> None:
    namespace = notebook(
        "import torch\nclass Own(torch.Tensor): pass\nnet = torch.nn.Linear(2, 2)\n"
        "last = net(torch.ones(1, 2)).pow(2)\n"
        f"made = last.{more}\nnet.last = [made if isinstance(made, Own) else last]"
    )
    with pytest.raises(CannotTravel, match="live autograd graph"):
        ship(["net"], namespace)


@pytest.mark.slow
def test_takes_a_tensor_whose_gradient_flows_to_where_nobody_looks() -> None:
    namespace = notebook("import torch\nx = torch.ones(3, 1, requires_grad=True).double()")

    cross_here(
        namespace,
        """
(x ** 2).sum().backward()
(x ** 2).sum().backward()
gradient = torch.autograd.grad((x ** 3).sum(), x)[0]
kind = x.is_leaf, x.requires_grad, x.tolist()""",
        "x",
        "torch",
    )
    assert namespace["kind"] == (False, True, [[1.0], [1.0], [1.0]])
    assert namespace["gradient"].tolist() == [[3.0]] * 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "made", ["(leaf * 0.3).exp()", "leaf.softmax(0)", "leaf.exp().register_hook(print)", "net(leaf).pow(2).sum()"]
)
def test_refuses_a_tensor_whose_way_back_to_its_leaves_is_more_than_a_factor(made: str) -> None:
    namespace = notebook(
        "import torch\ntorch.manual_seed(0)\nleaf = torch.rand(4, requires_grad=True)\nnet = torch.nn.Linear(4, 3)\n"
        f"t = leaf.exp()\nhook = {made}\nt = hook if isinstance(hook, torch.Tensor) else t"
    )
    if "register_hook" in made:
        namespace["t"].register_hook(print)
    with pytest.raises(CannotTravel, match="live autograd graph"):
        ship(["t", "leaf"], namespace)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize("norm", ["weight_norm", "spectral_norm"])
def test_takes_a_weight_that_its_module_computes_before_each_forward(norm: str) -> None:
    setup = f"""
import torch
torch.manual_seed(0)
net = torch.nn.utils.{norm}(torch.nn.Linear(3, 2))
x = torch.ones(1, 3)
before = net(x).sum()"""
    namespace, expected = notebook(setup), notebook(setup)
    assert namespace["net"].weight.grad_fn is not None
    cell = "net(x).pow(2).sum().backward()\ngradients = [p.grad.clone() for p in net.parameters()]"
    exec(cell, expected)

    cross_here(namespace, cell, "net", "x")

    assert len(namespace["gradients"]) == len(expected["gradients"]) > 1
    for found, wanted in zip(namespace["gradients"], expected["gradients"], strict=True):
        assert found.equal(wanted)


@pytest.mark.slow
def test_refuses_a_position_in_a_loader() -> None:
    namespace = notebook("from torch.utils.data import DataLoader\nx = iter(DataLoader([1, 2], num_workers=1))")

    with pytest.raises(CannotTravel, match=r"Call iter\(loader\) in the cell that uses it"):
        ship(["x"], namespace)


def test_on_the_way_back_only_what_cannot_come_stays_behind() -> None:
    namespace = notebook("d = {'a': 1}; e = d")

    returned = cross_here(
        namespace,
        "import threading\nd['b'] = threading.Lock(); d['b'].acquire(); d['c'] = 2\n"
        "gen = (i for i in 'xy' for j in i); next(gen)",
    ).returned

    assert returned.names == ("threading",)
    assert [(left.name, left.path) for left in returned.left_behind] == [("gen", "gen"), ("d", "d['b']")]
    # Not "make it inside the cell", where it was made.
    assert what_stayed(returned.left_behind)[1] == (
        "d['b'] stayed in the worker: it is a lock that a thread of this process holds."
    )
    assert namespace["e"]["c"] == 2 and isinstance(namespace["e"]["b"], Unavailable)
    assert repr(namespace["e"]["b"]) == "<a _thread.lock object, which stayed in the worker>"
    with pytest.raises(AttributeError, match="stayed in the worker"):
        namespace["e"]["b"].acquire()


def test_many_that_stay_for_one_reason_are_told_once() -> None:
    left = [LeftBehind(name, name, "a widget, with a kernel. Make it inside the cell.") for name in "abcdef"]

    assert what_stayed(left[:2]) == ["a and b stayed in the worker: each is a widget, with a kernel."]
    assert what_stayed(left) == ["a, b, c and 3 more stayed in the worker: each is a widget, with a kernel."]


def test_one_object_that_breaks_the_stream_does_not_break_the_reply() -> None:
    namespace = notebook("d = {}")
    cell = "class Bad:\n    def __reduce__(self): return 'no_such_global'\nbad = Bad(); good = [1]; d['x'] = good"

    returned = cross_here(namespace, cell).returned

    assert namespace["good"] == [1] and namespace["d"]["x"] is namespace["good"]
    assert [left.name for left in returned.left_behind] == ["bad"]


BAD = "def refuse(): raise ValueError('not again')\nclass Bad:\n    def __reduce__(self): return refuse, ()\n"


def test_what_cannot_be_made_again_does_not_cost_the_others() -> None:
    namespace = notebook("import numpy as np\nw = [1]; d = {}; e = {}")
    cell = (
        f"{BAD}first = 'one'; near = ['s']; bad = Bad(); held = {{'in': [Bad()], 'near': near, 'a': np.ones(9)}}\n"
        "class Half:\n    def __setstate__(self, state): raise ValueError('half')\n"
        "    def __getstate__(self): return {'n': 1}\n    def __reduce__(self): return Half, (), {'n': 1}\n"
        "half = Half(); after = [np.ones(2)]; w.append(2); d['x'] = held; e['after'] = after, half\n"
    )

    returned = cross_here(namespace, cell).returned

    assert namespace["w"] == [1, 2] and namespace["first"] == "one" and namespace["after"][0].tolist() == [1, 1]
    held = namespace["held"]
    assert held is namespace["d"]["x"] and held["near"] is namespace["near"] and held["a"].sum() == 9
    assert isinstance(held["in"][0], Unavailable) and not {"bad", "half"} & set(namespace)
    assert namespace["e"]["after"][0] is namespace["after"] and isinstance(namespace["e"]["after"][1], Unavailable)
    paths = [left.path for left in returned.left_behind]
    assert paths[0] == "bad" and "['in'][0]" in paths[1] and "after" in paths[2] and len(paths) == 3
    assert "not again" in returned.left_behind[0].why and "half" in returned.left_behind[2].why


def test_a_module_that_is_not_here_does_not_cost_the_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "far_9.py").write_text("class A: pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    namespace = notebook("w = [1]")
    shipment = ship(["w"], namespace)
    there: dict[str, Any] = {"__name__": "__main__"}
    arrival = receive(shipment.graph, shipment.memory, there)
    exec("import far_9\na = far_9.A(); b = 1; w.append([a])", there)
    reply = arrival.reply()
    (tmp_path / "far_9.py").unlink()
    monkeypatch.delitem(sys.modules, "far_9")

    returned = shipment.bring_back(Reply(reply.graph, reply.memory), namespace)

    assert namespace["b"] == 1 and isinstance(namespace["w"][1][0], Unavailable) and "a" not in namespace
    assert any("far_9" in left.why for left in returned.left_behind)


def test_a_class_with_a_way_of_its_own_takes_it_however_deep_the_hindrance() -> None:
    namespace = notebook(
        "import weakref\nclass Link: pass\nclass R(weakref.ref): pass\n"
        "class A:\n    def __init__(self): self.n, link = 1, Link(); link.deep = {'x': [R(self)]};"
        " self.link = link\n    def __getstate__(self): return {'n': self.n}\na = A()"
    )
    link = namespace["a"].link

    cross_here(namespace, "assert a.n == 1 and not hasattr(a, 'link'); a.n = 2; b = a", "a")

    assert namespace["a"].n == 2 and namespace["a"].link is link and namespace["b"] is namespace["a"]


def test_lines_of_a_shell_command_travel() -> None:
    namespace = notebook(
        "from IPython.utils.text import LSString, SList\nfiles = SList(['a', 'b']); one = LSString('x')"
    )

    cross_here(namespace, "found = files.grep('a'); same = one + 'y'", "files", "one")

    assert list(namespace["found"]) == ["a"] and namespace["same"] == "xy"


@pytest.mark.slow
def test_figures_travel_both_ways() -> None:
    namespace = notebook(
        "import matplotlib; matplotlib.use('agg')\nimport matplotlib.pyplot as plt\nfig, ax = plt.subplots()\n"
        "fig.canvas.draw()"
    )

    returned = cross_here(namespace, "ax.plot([1, 2]); fig2, ax2 = plt.subplots(); lines = ax2.plot([3, 4])").returned

    assert returned.left_behind == ()
    assert len(namespace["fig"].axes) == 1 and namespace["ax2"].figure is namespace["fig2"]
    assert namespace["fig"].axes[0] is namespace["ax"] and namespace["ax"].lines[0].get_ydata().tolist() == [1, 2]
    assert namespace["lines"][0] is namespace["ax2"].lines[0]
    namespace["fig"].canvas.draw()
    namespace["fig2"].canvas.draw()
    namespace["plt"].close("all")


def _close(namespace: dict[str, Any]) -> None:
    """Keep Python from warning about what the cell opened."""
    x = namespace.get("x")
    if isinstance(x, dict):
        x = x["s"]
    if isinstance(x, sqlite3.Cursor):
        x = x.connection
    if isinstance(x, io.IOBase | socket.socket | sqlite3.Connection | CoroutineType):
        x.close()
    elif isinstance(x, subprocess.Popen):
        x.communicate()


def test_a_queue_that_a_thread_of_the_notebook_fills_is_told() -> None:
    namespace = notebook(
        "import queue, threading\nbox = [queue.Queue()]; get = queue.Queue(); begun = threading.Event()\n"
        "ready = threading.Event(); dropped = threading.Event()\n"
        "class Own: pass\n"
        "own = [Own()]\n"
        "def fill(ready):\n    held = own.pop(); begun.set(); box[0].get(); del held; dropped.set()\n"
        "    while box[0].get() is None: pass\n    ready.set()\n"
        "thread = threading.Thread(target=fill, args=(ready,), daemon=True)"
    )
    held = weakref.ref(namespace["own"][0])
    namespace["thread"].start()
    namespace["begun"].wait()
    try:
        (remark,) = ship(["get", "begun", "ready"], namespace).remarks
        assert remark.startswith("ready is shared with the thread 'Thread-") and "a cell that waits for it" in remark
        namespace["box"][0].put(0)
        namespace["dropped"].wait()
        assert held() is None, "to look at the thread keeps nothing alive"
    finally:
        namespace["box"][0].put(0)
