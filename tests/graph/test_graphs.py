"""Tensors of earlier cells, and the graphs of autograd that stay behind: refused, taken as values, or ended."""

from __future__ import annotations

import pytest

from jupyter_gpufit.errors import CannotTravel
from jupyter_gpufit.graph import ship

from .crossing import cross_here, notebook


@pytest.mark.slow
def test_refuses_a_tensor_with_a_live_graph_only() -> None:
    namespace = notebook(
        "import torch\nw = torch.ones(2, requires_grad=True)\nlive = (w * w).exp().sum()\nadded = live + 1"
    )

    with pytest.raises(CannotTravel, match=r"live autograd graph \(AddBackward0\).*\.detach\(\)"):
        ship(["added", "w"], namespace)
    namespace["live"].backward()
    ship(["added", "live", "w"], namespace)


@pytest.mark.slow
@pytest.mark.parametrize("names", [["w", "added"], ["added", "kept", "w"]])
def test_takes_one_that_the_cell_sets_and_a_backward_through_it_is_an_error(names: list[str]) -> None:
    namespace = notebook(
        "import torch\nw = torch.ones(2, requires_grad=True)\nadded = (w * w).exp().sum() + 1\nkept = [added]"
    )

    cell = "value = added.item()\ntry: added.backward()\nexcept Exception as error: caught = type(error).__name__"
    cross_here(namespace, cell, *names, certain=("w",))
    assert namespace["value"] == namespace["added"].item() and namespace["caught"] == "GraphStayed"
    namespace["added"].backward()


@pytest.mark.slow
def test_gradients_end_at_one_whose_leaves_the_cell_does_not_use() -> None:
    namespace = notebook(
        "import torch\ntorch.manual_seed(0)\nembed, net = torch.nn.Embedding(6, 4), torch.nn.Linear(4, 1)\n"
        "x = torch.stack([torch.cat([row[:2], row[2:]]) for row in embed(torch.arange(6))])"
    )
    before = namespace["embed"].weight.grad

    cross_here(namespace, "for _ in range(2): net(x).sum().backward()\nout = net(x)", "net", "x")
    assert namespace["net"].weight.grad is not None and namespace["embed"].weight.grad is before
    assert namespace["x"].grad_fn is not None and namespace["out"].tolist() == namespace["net"](namespace["x"]).tolist()
    [said] = ship(["net", "x"], namespace).remarks
    assert said.startswith("x was computed in an earlier cell: gradients end there")
    with pytest.raises(CannotTravel, match="live autograd graph"):
        ship(["net", "x", "embed"], namespace)
