"""A tensor whose storage may change its size (an observer's, an `out=`) still may, wherever it goes."""

from __future__ import annotations

import pytest
import torch

from jupyter_gpufit.graph import Reply, receive, ship

from .crossing import Worker, cross_here, defined, notebook

pytestmark = pytest.mark.slow  # imports torch


def test_one_that_came_grows_there_and_again_where_it_comes_back(worker: Worker) -> None:
    namespace = notebook("import torch\nkept = torch.zeros(3); part = kept[:2]")
    kept = namespace["kept"]

    worker.cross(namespace, "torch.cat([torch.ones(4), torch.ones(2)], out=kept)\nnew = torch.zeros(2)")

    assert namespace["kept"] is kept and kept.tolist() == [1] * 6 and namespace["part"].tolist() == [1, 1]
    assert kept.resize_(9).shape == namespace["new"].resize_(9).shape == (9,)
    worker.cross(namespace, "new.resize_(20).fill_(2)\npart += 1")
    assert namespace["new"].tolist() == [2] * 20 and kept[:3].tolist() == [2, 2, 1]


def test_what_shares_bytes_shares_them_all_the_way(worker: Worker) -> None:
    namespace = notebook(
        "import torch, numpy as np\na = np.zeros(4); t = torch.from_numpy(a); b = torch.zeros(4); row = b[1:3]\n"
        "c = torch.zeros(4); d = np.from_dlpack(c); alone = torch.zeros(4)"
    )
    at = {name: namespace[name].data_ptr() for name in ("t", "b", "c", "alone")}

    cell = "a += 1; row += 1; c += 1; alone += 1; seen = alone.numpy(); was = [row.sum(), d.sum(), t.sum()]"
    worker.cross(namespace, cell)

    assert [float(one) for one in namespace["was"]] == [2, 4, 4]
    assert at == {name: namespace[name].data_ptr() for name in at}, "they came back into their own bytes"
    assert namespace["b"].tolist() == [0, 1, 1, 0] and namespace["d"].tolist() == namespace["a"].tolist() == [1] * 4
    namespace["alone"] += 1
    assert namespace["seen"].tolist() == [2] * 4


def test_one_that_got_another_size_here_meanwhile_is_not_written_over() -> None:
    namespace = notebook("import torch\nkept = torch.zeros(4); other = torch.zeros(4)")
    shipment = ship(defined(namespace), namespace)
    there = {"__name__": "__main__"}
    arrival = receive(shipment.graph, shipment.memory, there)
    exec("kept += 1; other += 1", there)
    reply = arrival.reply()
    kept: torch.Tensor = namespace["kept"].resize_(100_000).fill_(7)

    shipment.bring_back(Reply(reply.graph, reply.memory), namespace)

    assert bool((kept == 7).all()) and namespace["other"].tolist() == [1] * 4


def test_a_large_one_stands_on_the_memory_that_came() -> None:
    namespace = notebook("import torch\nlarge = torch.zeros(20_000)")

    cross_here(namespace, "where = large.untyped_storage().resizable(); large += 1")

    assert namespace["where"] is False and float(namespace["large"].sum()) == 20_000
