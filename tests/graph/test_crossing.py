"""What holds for a crossing as a whole: the very same objects, the same bytes, and all or nothing."""

from __future__ import annotations

import gc
import inspect
import linecache
import mmap
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jupyter_gpufit.errors import CannotArrive, NoRoomToTravel
from jupyter_gpufit.graph import GraphMemory, Reply, bring_into, deep, receive, ship
from jupyter_gpufit.graph.wire import split

from .crossing import Worker, cross_here, defined, notebook

Namespace = dict[str, Any]


def test_other_names_for_an_object_see_what_the_cell_did_to_it() -> None:
    inner: list[int] = []
    namespace: Namespace = {"outer": {"inner": inner}}

    cross_here(namespace, "outer['inner'].append(1)")

    assert inner == [1]


def test_binds_what_was_assigned_and_removes_what_was_deleted() -> None:
    namespace = notebook("a = 1; b = 2; c = [3]")

    returned = cross_here(namespace, "a = 5; del b; d = c; e = [c]; _hidden = 1; _ = 2; _i3 = 'x'").returned

    assert set(returned.names) == {"a", "d", "e", "_hidden"} and returned.deleted == ("b",)
    assert namespace["a"] == 5 and "b" not in namespace and "_i3" not in namespace
    assert namespace["d"] is namespace["c"] is namespace["e"][0]


def test_unchanged_objects_cost_nothing_on_the_way_back() -> None:
    namespace = notebook("words = [str(i) for i in range(10_000)]; d = {w: [w] for w in words}")

    crossing = cross_here(namespace, "d['7'].append(1)")

    header, stream = split(crossing.reply.graph)
    assert header["changes"] == 1 and len(stream) < 500


def test_a_changed_class_attribute_comes_back_alone() -> None:
    namespace = notebook("class A:\n    n = 1\n    def f(self): return self.n\na = A()")
    before = namespace["A"].f

    cross_here(namespace, "A.n += 1; A.g = a.f")

    assert namespace["a"].f() == 2 and namespace["A"].f is before and namespace["a"].g() == 2


def test_read_only_memory_is_never_written() -> None:
    with mmap.mmap(-1, 4096, prot=mmap.PROT_READ) as readonly:
        namespace: Namespace = {"a": np.frombuffer(readonly, np.uint8), "b": np.frombuffer(b"constant", np.uint8)}

        cross_here(namespace, "b = a.sum()")

        assert namespace.pop("a").sum() == namespace.pop("b") == 0
        gc.collect()


def test_a_mapped_file_is_mapped_there_and_not_copied(tmp_path: Path, worker: Worker) -> None:
    np.arange(100_000, dtype=np.uint16).tofile(tmp_path / "train.bin")
    namespace = notebook("import numpy as np")
    namespace["data"] = np.memmap(tmp_path / "train.bin", dtype=np.uint16, mode="r", offset=8)
    namespace["notes"] = np.memmap(tmp_path / "notes.bin", dtype=np.uint8, mode="w+", shape=(10,))
    namespace["slice"] = np.asarray(namespace["data"])[500:]

    crossing = worker.cross(namespace, "assert data[1] == 5 and slice[0] == data[500]; notes[:] = 7; n = data[2:4]")

    assert crossing.shipment.memory.size == 0
    assert namespace["notes"].tolist() == [7] * 10 and namespace["n"].tolist() == [6, 7]
    assert isinstance(namespace["data"], np.memmap)


def test_bytes_that_nobody_changed_are_not_written(tmp_path: Path) -> None:
    # Pages of a private mapping are the file's until they are written, which /proc shows.
    (tmp_path / "x").write_bytes(bytes(1 << 20))
    with (tmp_path / "x").open("rb") as file:
        private = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    namespace: Namespace = {"a": np.frombuffer(private, np.uint8)}

    cross_here(namespace, "b = a[0]")

    assert _anonymous_kib(namespace["a"].__array_interface__["data"][0]) == 0


def _anonymous_kib(address: int) -> int:
    found = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split()[0]:
            found = int(line.split("-")[0], 16) == address
        elif found and line.startswith("Anonymous:"):
            return int(line.split()[1])
    raise AssertionError("no such mapping")


def test_a_reply_that_cannot_be_read_changes_nothing() -> None:
    namespace = notebook("import numpy as np\na = [1]; b = np.zeros(3)")
    shipment = ship(["a", "b"], namespace)
    there: Namespace = {"__name__": "__main__"}
    arrival = receive(shipment.graph, shipment.memory, there)
    exec("a.append(2); b += 1; c = 3", there)
    reply = arrival.reply()

    with pytest.raises(CannotArrive):
        shipment.bring_back(Reply(reply.graph[:-4], reply.memory), namespace)

    assert namespace["a"] == [1] and namespace["b"].tolist() == [0, 0, 0] and "c" not in namespace


def test_says_which_module_the_other_end_lacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "only_here_7.py").write_text("class A: pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    namespace = notebook("import only_here_7\na = only_here_7.A()")
    shipment = ship(["a"], namespace)
    (tmp_path / "only_here_7.py").unlink()
    monkeypatch.delitem(sys.modules, "only_here_7")

    with pytest.raises(CannotArrive, match=r"a could not be opened.*only_here_7"):
        receive(shipment.graph, shipment.memory, {})


def test_modules_beside_the_notebook_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, worker: Worker) -> None:
    (tmp_path / "beside_8.py").write_text("class A:\n    x = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    namespace = notebook("from beside_8 import A\na = A()")

    worker.cross(namespace, "a.x = A.x + 1")

    assert namespace["a"].x == 2


def test_what_a_module_keeps_once_it_is_used_is_made_where_it_is_not_yet(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, worker: Worker
) -> None:
    """labml's experiment, which an earlier cell created."""
    (tmp_path / "keeps_9.py").write_text(
        "class Kept:\n    x = 1\nkept = None\ndef keep():\n    global kept\n    kept = Kept()\n    return kept\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    namespace = notebook("import keeps_9\na = keeps_9.keep()")

    worker.cross(namespace, "a.x = a.x + 1")

    assert namespace["a"].x == 2 and namespace["a"] is namespace["keeps_9"].kept


def test_refuses_what_does_not_fit_into_memory() -> None:
    # np.empty touches nothing: this is address space only.
    namespace: Namespace = {"small": 1, "big": np.lib.stride_tricks.as_strided(np.zeros(1), (1 << 40,), (8,))}

    with pytest.raises(NoRoomToTravel, match="The largest is big"):
        ship(["small", "big"], namespace)


def test_a_new_array_frees_its_bytes_when_it_goes() -> None:
    namespace = notebook("import numpy as np")
    crossing = cross_here(namespace, "a = np.ones(1 << 20); b = np.ones(1 << 20); c = np.ones(3)")
    memory = crossing.reply.memory
    full = sum(os.fstat(fd).st_blocks for fd in memory.fds)

    del namespace["a"]

    assert sum(os.fstat(fd).st_blocks for fd in memory.fds) < 0.6 * full
    assert namespace["b"].sum() == 1 << 20 and namespace["c"].sum() == 3


def test_a_forked_child_changes_only_its_own_copy() -> None:
    namespace = notebook("import numpy as np\na = np.zeros(100_000)")
    shipment = ship(["a"], namespace)
    there: Namespace = {}
    arrival = receive(shipment.graph, shipment.memory, there)

    child = os.fork()
    if child == 0:
        there["a"] += 1
        os._exit(0 if there["a"].sum() == 100_000 else 1)

    assert os.waitpid(child, 0)[1] == 0
    assert there["a"].sum() == 0 and arrival is not None


@pytest.mark.slow
def test_a_kernel_that_never_had_the_objects_opens_a_saved_reply(tmp_path: Path, worker: Worker) -> None:
    namespace = notebook(
        "import torch, numpy as np\nmodel = torch.nn.Linear(100, 200)\nalias = [model]; gone = 1; a = np.zeros(3)\n"
        "optimizer = torch.optim.Adam(model.parameters())\ndef predict(x): return model(x)\n"
    )
    cell = (
        "model(torch.ones(1, 100)).sum().backward(); optimizer.step(); a += 1; del gone; new = model.weight[0]; n = 5"
    )
    worker.run(ship(defined(namespace), namespace), cell, save=tmp_path)
    fresh: Namespace = {"__name__": "__main__"}

    returned = bring_into(fresh, Reply.open(tmp_path))

    assert "gone" not in fresh and fresh["n"] == 5 and fresh["a"].tolist() == [1, 1, 1]
    assert {"model", "alias", "new", "n", "predict"} <= set(returned.names)
    model = fresh["model"]
    assert fresh["alias"][0] is model and fresh["optimizer"].param_groups[0]["params"][0] is model.weight
    assert (model.weight != namespace["model"].weight).all() and model.weight.grad is not None
    assert fresh["new"].data_ptr() == model.weight.data_ptr()
    assert fresh["predict"].__globals__ is fresh


@pytest.mark.slow
def test_a_saved_reply_also_comes_back_into_the_kernel_that_sent_it(tmp_path: Path, worker: Worker) -> None:
    namespace = notebook("import torch\nw = torch.zeros(1000, 1000); v = w[0]; d = {'w': w}")
    w = namespace["w"]
    shipment = ship(defined(namespace), namespace)
    worker.run(shipment, "w += 1; d['new'] = torch.ones(100_000)", save=tmp_path)

    shipment.bring_back(Reply.open(tmp_path), namespace)

    assert namespace["w"] is w is namespace["d"]["w"] and w.sum() == 1_000_000 and namespace["v"][3] == 1
    namespace["d"]["new"] += 1
    assert GraphMemory.open(tmp_path / "reply.memory").read(0, 4) == np.float32(1).tobytes()


def test_the_text_of_a_cell_goes_with_its_functions_both_ways(worker: Worker) -> None:
    text = "def f():\n    return 1  # the line\nclass A:\n    def m(self): return 2\n"
    namespace = _typed("<cell-of-the-kernel>", text, {"__name__": "__main__"})
    cell = (
        "import inspect, linecache\nlinecache.checkcache()\nfound = inspect.getsource(f), inspect.getsource(A.m)\n"
        "text = 'def g(): return 3'\nlinecache.cache['<there>'] = (len(text), None, [text], '<there>')\n"
        "exec(compile(text, '<there>', 'exec'))\n"
    )

    worker.cross(namespace, cell, "f", "A")

    linecache.checkcache()
    assert "the line" in namespace["found"][0] and "return 2" in namespace["found"][1]
    assert inspect.getsource(namespace["g"]) == "def g(): return 3"


def _typed(filename: str, text: str, namespace: Namespace) -> Namespace:
    """A cell as IPython runs it: its text is in linecache only."""
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    exec(compile(text, filename, "exec"), namespace)
    return namespace


def test_without_torch_nobody_loads_it() -> None:
    code = (
        "import sys; from jupyter_gpufit.graph import ship, receive; ns = {'a': [1]}; s = ship(['a'], ns);"
        " w = {}; a = receive(s.graph, s.memory, w); w['a'].append(2); s.bring_back(a.reply(), ns);"
        " assert ns['a'] == [1, 2]; assert not {'torch', 'numpy', 'pandas'} & set(sys.modules), 'loaded'"
    )
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-W", "error", "-c", code]) == 0


KNOWN = """
class Thing: pass
a, b, c = Thing(), Thing(), Thing()
chosen, last, things = {id(a)}, id(b), [a, b, c]
named = {id(a): ("a", id(c)), id(chosen): "chosen"}
def is_last(one, other=last): return id(one) == other
"""


def test_what_is_known_by_its_id_is_known_on_either_side() -> None:
    """`if id(p) in no_decay`: in another process an object lives elsewhere, and the number would mean nothing there."""
    namespace = notebook(KNOWN)
    mine = [id(namespace[name]) for name in "abc"]
    worker = Worker()
    names = defined(namespace)
    try:
        shipment = ship(names, namespace)
        cell = (
            "found = [id(one) in chosen for one in things], is_last(b), named[id(a)][1] == id(c), named[id(chosen)]\n"
            "chosen.add(id(b)); last = id(c); new = Thing(); named[id(new)] = 'new'\n"
        )
        shipment.bring_back(worker.run(shipment, cell), namespace)
    finally:
        worker.close()

    assert namespace["found"] == ([True, False, False], True, True, "chosen")
    assert namespace["chosen"] == set(mine[:2]) and namespace["last"] == mine[2]
    assert namespace["named"] == {
        mine[0]: ("a", mine[2]),
        id(namespace["chosen"]): "chosen",
        id(namespace["new"]): "new",
    }


@pytest.mark.slow
@pytest.mark.parametrize("in_python", [False, True], ids=["in C", "in Python"])
def test_a_long_chain_crosses_with_whatever_else_there_is(in_python: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep, "_LIMITED", in_python or deep._LIMITED)  # as with Python 3.12 and 3.13
    monkeypatch.setattr(deep, "_LIMIT", 1_000_000)
    namespace = notebook(
        "import numpy as np\nclass Node: pass\nfirst = last = Node()\n"
        "for _ in range(20_000):\n    last.next = Node()\n    last = last.next\n"
        "last.held = [np.zeros(2000), {'a': {1, 2}, 'b': b'x', 'f': lambda: 1}, Node, bytearray(b'y')]\n"
        "known, array = {id(last)}, last.held[0]\n"
    )
    last, array = namespace["last"], namespace["array"]

    cross_here(namespace, "assert known == {id(last)}; array += 1; last.next = first; last.held[1]['g'] = last")

    assert last.next is namespace["first"] and array[0] == 1 and last.held[1]["g"] is last


@pytest.mark.slow
def test_a_chain_of_a_hundred_thousand_objects_is_shipped() -> None:
    namespace = notebook(
        "class Node: pass\nfirst = last = Node()\n"
        "for _ in range(100_000):\n    last.next = Node()\n    last = last.next\n"
    )

    assert ship(["first"], namespace).graph


def test_a_reply_takes_the_place_of_the_one_of_a_failed_try() -> None:
    """A resumed training tells the difference to what was shipped, and not to what its failed try brought."""
    torch = pytest.importorskip("torch")
    namespace = notebook(
        "import torch\nclass Thing: pass\n"
        "actions, best, thing, gone, kept, made_anew = [], {'x': 1}, Thing(), 7, [0], 1\n"
        "thing.score = 1; weight = torch.zeros(3); also = actions\n"
    )
    namespace.pop("torch")
    shipment = ship(defined(namespace), namespace)

    def tried(cell: str) -> Reply:
        memory = GraphMemory.create(shipment.memory.size)
        memory.write([])
        there: Namespace = {"__name__": "__main__"}
        arrival = receive(shipment.graph, memory, there)
        exec(compile(cell, "<cell>", "exec"), there)
        return arrival.reply()

    failed = tried(
        "actions += range(8); best['x'] = 2; best['y'] = 3; thing.extra = 5; thing.score = 2; del gone\n"
        "error = 'e'; kept = [1]; weight.add_(1).requires_grad_(True); made_anew = 2\n"
    )
    returned = shipment.bring_back(failed, namespace)
    assert namespace["actions"] == list(range(8)) and namespace["error"] == "e"
    namespace["made_anew"] = 3

    shipment.bring_back(tried("done = 1"), namespace, returned.undo)

    assert namespace["actions"] == [] and namespace["also"] is namespace["actions"] and namespace["best"] == {"x": 1}
    assert vars(namespace["thing"]) == {"score": 1} and namespace["gone"] == 7 and namespace["kept"] == [0]
    assert "error" not in namespace and namespace["done"] == 1
    assert namespace["made_anew"] == 3  # by the notebook, after the failed try
    assert torch.equal(namespace["weight"], torch.zeros(3)) and not namespace["weight"].requires_grad


def test_what_only_a_getstate_tells_comes_back() -> None:
    """A count in memory that processes share: the object that holds it is the same, whatever it counts."""
    namespace = notebook(
        "class Writer:\n"
        "    def __init__(self, count):\n"
        "        import multiprocessing\n"
        "        self.shared = multiprocessing.Value('i', count)\n"
        "    def __getstate__(self): return {'count': self.shared.value}\n"
        "    def __setstate__(self, state): self.__init__(state['count'])\n"
        "writer, other = Writer(1), Writer(2)\nkept = other.shared"
    )

    crossing = cross_here(namespace, "writer.shared.value += 1000", "writer", "other")

    assert namespace["writer"].shared.value == 1001
    assert namespace["other"].shared is namespace["kept"], "what did not change stays as it is"
    assert crossing.returned


def test_what_a_method_that_runs_at_its_opening_reads_is_there_before() -> None:
    """The cell names the object only, and a `__setstate__` reads a setting and calls a function of the notebook."""
    before = """
import threading
FACTOR = 2
def doubled(n): return FACTOR * n
class Held:
    def __init__(self, n): self.n, self.lock = n, threading.local()
    def __getstate__(self): return self.n
    def __setstate__(self, n): self.n, self.twice = n, doubled(n)
held = Held(3)
"""
    namespace = notebook(before)

    cross_here(namespace, "seen = held.twice", "held")

    assert namespace["seen"] == 6
