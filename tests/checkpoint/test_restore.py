"""What a snapshot does in the process that opens it, where the fresh process does not matter."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest

from jupyter_gpufit.cell.resumable import Program
from jupyter_gpufit.checkpoint import modules
from jupyter_gpufit.checkpoint.pickler import SnapshotPickler
from jupyter_gpufit.checkpoint.restore import Restored, restore
from jupyter_gpufit.checkpoint.snapshot import take
from jupyter_gpufit.errors import CannotArrive
from jupyter_gpufit.graph import Memory, receive, ship
from tests.graph.crossing import notebook


class Standing(Program):
    """A cell that stands nowhere: only its variables count."""

    def records(self) -> list[Any]:
        return []


def through(cell: str, namespace: dict[str, Any] | None = None, *, memory: Memory | None = None) -> Restored:
    """Take a snapshot of what a cell made, and open it in a second namespace of this process."""
    there = notebook(cell)
    nothing = ship([], {})
    arrival = receive(nothing.graph, nothing.memory, there)
    snapshot = take(Standing(there), arrival, there)
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


def test_a_file_that_has_gone_or_shrunk_is_named(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    there = notebook(f"f = open({str(log)!r}, 'w'); f.write('abc')\nf.flush()")
    pickler = SnapshotPickler(None, there, lambda address: None)
    pickler.dump(there["f"])
    assert pickler.refusals == []
    there["f"].close()
    log.write_text("ab")

    from jupyter_gpufit.checkpoint.opened_files import make_raw

    with pytest.raises(CannotArrive, match="shorter than it was at the checkpoint"):
        make_raw(str(log), str(log), "wb", 3)
    log.unlink()
    with pytest.raises(CannotArrive, match="No such file"):
        make_raw(str(log), str(log), "wb", 3)


def test_another_memory_is_refused() -> None:
    with pytest.raises(CannotArrive, match="not the one that this training was started with"):
        through("a = 1", memory=Memory.create(1 << 20))


def test_a_set_whose_order_is_lost_is_told_of() -> None:
    there = notebook("names = frozenset(f'name {i}' for i in range(300))\nfine = frozenset(range(9))")
    nothing = ship([], {})
    arrival = receive(nothing.graph, nothing.memory, there)

    remarks = take(Standing(there), arrival, there).remarks

    assert len(remarks) <= 1 and all(remark.startswith("names will be gone through") for remark in remarks)


def test_own_modules_that_changed_are_told_of(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("x = 1")
    (tmp_path / "other.py").write_text("x = 1")
    then = {name: (str(tmp_path / name), (tmp_path / name).stat().st_mtime_ns, 5) for name in ("mine.py", "other.py")}
    (tmp_path / "mine.py").write_text("x = 234")
    (tmp_path / "other.py").unlink()

    told = modules.changed_files(then)

    assert len(told) == 2 and "has changed" in told[0] and "is gone" in told[1]


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
