"""What a snapshot does in the process that opens it, where the fresh process does not matter."""

from __future__ import annotations

import ctypes
import linecache
import os
from pathlib import Path
from typing import Any

import pytest

from jupyter_gpufit.checkpoint.values import Snapshot
from jupyter_gpufit.errors import CannotArrive, NotResumable
from jupyter_gpufit.graph import GraphMemory, receive, ship
from jupyter_gpufit.program import Program
from jupyter_gpufit.snapshot import modules
from jupyter_gpufit.snapshot.restore import Restored, restore
from jupyter_gpufit.snapshot.take import VERSION, take
from jupyter_gpufit.snapshot.users_files import LeftFiles
from tests.graph.crossing import notebook


class Standing(Program):
    """A cell that stands nowhere: only its variables count."""

    def records(self) -> list[Any]:
        return []


def taken(cell: str) -> Snapshot:
    """A snapshot of what a cell made."""
    there = notebook(cell)
    nothing = ship([], {})
    return take(Standing(there), receive(nothing.graph, nothing.memory, there), there)


def through(cell: str, namespace: dict[str, Any] | None = None, *, memory: GraphMemory | None = None) -> Restored:
    """Take a snapshot of what a cell made, and open it in a second namespace of this process."""
    snapshot = taken(cell)
    copies = [bytearray(blob.nbytes) for blob in snapshot.blobs]
    for blob, copy in zip(snapshot.blobs, copies, strict=True):
        if blob.nbytes:
            blob.write(memoryview(copy))
        assert blob.address is None or bytes(copy) == ctypes.string_at(blob.address, blob.nbytes)

    def read(number: int, view: memoryview) -> None:
        view[:] = copies[number]

    return restore(snapshot.graph, read, None, {} if namespace is None else namespace, memory=memory)


def test_variables_come_into_the_namespace() -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}

    through("a = [1]\nb = {'a': a}\ndef f(): return a\n_gf_t1 = 5\n_ = 3", namespace)

    assert namespace["b"]["a"] is namespace["a"] and namespace["f"]() is namespace["a"]
    assert not {"_gf_t1", "_"} & set(namespace)


def test_the_texts_of_earlier_cells_are_found_again() -> None:
    there = notebook("n = 1")
    program, nothing = Standing(there), ship([], {})
    program.learn("<an earlier cell>", "def f():\n    pass\n")
    snapshot = take(program, receive(nothing.graph, nothing.memory, there), there)

    restore(snapshot.graph, lambda number, view: None, Program({}), {})

    assert linecache.getline("<an earlier cell>", 1) == "def f():\n"


def test_another_memory_is_refused() -> None:
    with pytest.raises(CannotArrive, match="not the one that this training was started with. Restart the kernel"):
        through("a = 1", memory=GraphMemory.create(1 << 20))


def test_a_snapshot_of_another_version_is_refused() -> None:
    another = taken("a = 1").graph.replace(f'"version": {VERSION}'.encode(), f'"version": {VERSION - 1}'.encode(), 1)
    with pytest.raises(NotResumable, match="bert cannot be resumed: another version of jupyter_gpufit saved it"):
        restore(another, lambda number, view: None, None, {}, left=LeftFiles("bert"))


def test_a_set_whose_order_is_lost_is_told_of() -> None:
    there = notebook("names = frozenset(f'name {i}' for i in range(300))\nfine = frozenset(range(9))")
    nothing = ship([], {})
    arrival = receive(nothing.graph, nothing.memory, there)

    remarks = take(Standing(there), arrival, there).remarks

    # Of other tests in this process, threads may be remarked on, too.
    told = [remark for remark in remarks if "gone through" in remark]
    assert len(told) <= 1 and all(remark.startswith("names ") for remark in told)


def test_own_modules_that_changed_are_told_of(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("x = 1")
    (tmp_path / "other.py").write_text("x = 1")
    then = {name: (str(tmp_path / name), (tmp_path / name).stat().st_mtime_ns, 5) for name in ("mine.py", "other.py")}
    (tmp_path / "mine.py").write_text("x = 234")
    (tmp_path / "other.py").unlink()

    told = modules.changed_files(then)

    assert len(told) == 2 and "has changed" in told[0] and "is gone" in told[1]


ERRORS = """
import json
def leave(n): raise SystemExit(n)
kept = []
for text in ["1 +", "nothing", "open('/not/there')", "bytes([255]).decode()", "().x", "json.loads('{')", "leave(3)"]:
    try:
        eval(text)
    except BaseException as error:
        kept.append(error)
told = [str(error) for error in kept]
several = ExceptionGroup("several", [error for error in kept if isinstance(error, Exception)])
try:
    try:
        raise several
    finally:
        1 / 0
except ZeroDivisionError as error:
    last = error
"""


def test_errors_keep_what_python_notes_in_them() -> None:
    namespace: dict[str, Any] = {}

    through(ERRORS, namespace)

    syntax, name, file, decoding, attribute, parsing, leaving = kept = namespace["kept"]
    assert [str(error) for error in kept] == namespace["told"]
    assert (syntax.lineno, name.name, file.filename) == (1, "nothing", "/not/there")
    assert (decoding.object, attribute.name, parsing.pos, leaving.code) == (b"\xff", "x", 1, 3)
    assert namespace["several"].exceptions == tuple(kept[:-1])
    assert namespace["last"].__context__ is namespace["several"] and namespace["last"].__cause__ is None


@pytest.mark.slow
def test_tensors_keep_what_makes_them_more_than_numbers() -> None:
    namespace: dict[str, Any] = {}
    through(
        "import torch, numpy as np\nfrom torch import nn\n"
        "class Mine(torch.Tensor): pass\n"
        "p = nn.Parameter(torch.ones(3), requires_grad=False); p.note = 'kept'\n"
        "mine = torch.ones(2).as_subclass(Mine)\n"
        "with torch.inference_mode(): seen = torch.ones(2)\n"
        "x = torch.ones(4, requires_grad=True); loss = (x * x).sum(); loss.backward()\n"
        "s, c = torch.eye(3).to_sparse(), torch.ones(2, dtype=torch.complex64).conj()\n"
        "m, half, none = torch.empty(3, device='meta'), torch.ones(2, dtype=torch.bfloat16), torch.empty(0, 3)\n"
        "a = np.arange(6).reshape(2, 3)[:, ::-1]; objects = np.array([p, None], dtype=object)\n"
        "own = torch.Generator().manual_seed(3); drawn = torch.rand(2, generator=own)\n",
        namespace,
    )
    import torch

    p, x = namespace["p"], namespace["x"]
    assert type(p) is torch.nn.Parameter and not p.requires_grad and vars(p)["note"] == "kept"
    assert type(namespace["mine"]) is namespace["Mine"] and namespace["seen"].is_inference()
    assert x.grad.tolist() == [2.0] * 4 and namespace["loss"].item() == 4.0 and namespace["loss"].requires_grad
    assert namespace["s"].to_dense().equal(torch.eye(3)) and namespace["c"].is_conj()
    assert namespace["m"].is_meta and namespace["none"].shape == (0, 3) and namespace["half"].sum() == 2
    assert namespace["a"].tolist() == [[2, 1, 0], [5, 4, 3]] and namespace["objects"][0] is p
    assert torch.rand(1, generator=namespace["own"]).shape == (1,)
    assert x.untyped_storage().resizable() and x.data_ptr() % 64 == 0


@pytest.mark.slow
def test_the_parts_of_a_leaf_meet_in_one_node_again() -> None:
    cell = (
        "import torch\n"
        "w = torch.arange(12.0).reshape(4, 3).clone().requires_grad_()\n"
        "(a, b), columns, rest = w.chunk(2), w.unbind(-1), w.split([1, 3])\n"
    )
    namespace: dict[str, Any] = {}

    through(cell, namespace)

    there = notebook(cell)
    for each in (there, namespace):
        assert each["a"].grad_fn is each["b"].grad_fn and each["columns"][0].grad_fn is each["columns"][2].grad_fn
        parts = (each["a"] * -0.0).sum(), each["columns"][1].prod(), each["rest"][1].sin().sum()
        sum(parts).backward()
    assert namespace["w"].grad.view(-1).numpy().tobytes() == there["w"].grad.view(-1).numpy().tobytes()


STORED = """
import ctypes
class Model:
    def __init__(self, trees): self.trees, self.handle = trees, HANDLE
    def __getstate__(self): return {"trees": self.trees}
    def __setstate__(self, state): self.__init__(state["trees"])
    def count(self): return self.handle and self.trees
model = Model(3)
"""


@pytest.mark.parametrize("handle", ["ctypes.c_void_p(7)", "__import__('pyarrow').Codec('gzip')"])
def test_who_stores_itself_without_its_handle_is_saved_so(handle: str) -> None:
    """As the models of LightGBM do, and of CatBoost, whose handle is of a class of Cython's that refuses."""
    if "pyarrow" in handle:
        pytest.importorskip("pyarrow")
    namespace: dict[str, Any] = {"__name__": "__main__"}

    through(STORED.replace("HANDLE", handle), namespace)

    assert namespace["model"].count() == 3


def test_a_module_that_has_no_shape_yet_is_saved_so() -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}

    through(
        "import torch\nlazy = torch.nn.LazyLinear(3, dtype=torch.float64)\nnorm = torch.nn.LazyBatchNorm1d()", namespace
    )

    given = namespace["torch"].ones(2, 5, dtype=namespace["torch"].float64)
    made = namespace["norm"](namespace["lazy"](given).float())
    assert tuple(made.shape) == (2, 3) and namespace["lazy"].weight.dtype == given.dtype


def test_what_processes_share_is_shared_again() -> None:
    """Small ones, too, which are saved together with others."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    made = "import ctypes, multiprocessing as mp, numpy as np\nflag, array = mp.Value('i', 3), mp.Array('d', 6)\n"
    through(made + "view = np.ctypeslib.as_array(array.get_obj())\nplain, other = np.zeros(6), np.ones(3)", namespace)

    pid = os.fork()
    if not pid:
        namespace["flag"].value, namespace["view"][2], namespace["plain"][2] = 8, 5.0, 5.0
        os._exit(0)
    os.waitpid(pid, 0)

    assert namespace["flag"].value == 8 and namespace["array"][2] == 5 and namespace["plain"][2] == 0
