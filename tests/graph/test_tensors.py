"""Tensors that were on a GPU, as far as that shows without one."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from jupyter_gpufit.errors import GraphStayed
from jupyter_gpufit.graph.kinds.tensors import fill_tensor, has_live_graph, tensor_state

from .crossing import Worker, cross_here, notebook

pytestmark = pytest.mark.slow  # imports torch


def test_a_tensor_that_went_to_a_gpu_comes_back_into_its_own_bytes() -> None:
    weight = torch.zeros(3, requires_grad=True)
    view = weight.detach()[1:]
    cls, storage, looks, _, *rest = tensor_state(torch.ones(3, requires_grad=True))

    fill_tensor(weight, (cls, storage, looks, False, *rest))

    assert view.tolist() == [1, 1]


def test_a_tensor_whose_data_was_replaced_leaves_the_old_bytes_alone() -> None:
    weight = torch.zeros(3, requires_grad=True)
    view = weight.detach()[1:]

    fill_tensor(weight, tensor_state(torch.ones(3, requires_grad=True)))

    assert weight.tolist() == [1, 1, 1] and view.tolist() == [0, 0]


def test_a_graph_is_live_until_backward_has_freed_it() -> None:
    weight = torch.ones(2, requires_grad=True)
    loss = (weight * weight).exp().sum() + 1

    assert has_live_graph(loss)
    loss.backward()
    assert not has_live_graph(loss)


def test_a_row_of_a_parameter_that_has_changed_since_can_be_packed() -> None:
    weight = torch.nn.Parameter(torch.zeros(2, 2))
    row = list(weight)[1]  # as `for row in weight` leaves it
    with torch.no_grad():
        weight.add_(1)

    _, storage, looks, *_ = tensor_state(row)

    assert storage.data_ptr() == weight.untyped_storage().data_ptr() and looks[1:] == (2, (2,), (1,))


@pytest.mark.parametrize("size", [4, 1_000_000])
def test_what_processes_shall_share_they_share_in_the_worker_too(size: int, worker: Worker) -> None:
    """As A3C has it: children train the model of an earlier cell, in memory that was shared for them."""
    namespace = notebook(
        f"import torch\nnet = torch.nn.Linear({size}, 1).share_memory()\nown = torch.zeros({size})\n"
        "torch.nn.init.zeros_(net.weight)\nkept = net.weight"
    )

    worker.cross(
        namespace,
        "import os\nshared = net.weight.is_shared(), own.is_shared()\n"
        "if (child := os.fork()) == 0:\n    net.weight.data[0, 0] += 1; own[0] += 1; os._exit(0)\n"
        "os.waitpid(child, 0)\nfound = net.weight[0, 0].item(), own[0].item()",
    )

    assert namespace["shared"] == (True, False) and namespace["found"] == (1, 0)
    assert namespace["net"].weight is namespace["kept"] and namespace["kept"][0, 0] == 1
    assert namespace["kept"].is_shared() and not namespace["own"].is_shared()


def test_a_gradient_that_comes_to_what_another_cell_computed_is_an_error_and_not_lost() -> None:
    """`loss` of one cell, `loss.backward(); opt.step()` in the next: it trained nothing, and nobody said so."""
    namespace = notebook(
        "import torch\nnet, hist, log_alpha = torch.nn.Linear(3, 1), [], torch.nn.Parameter(torch.zeros(1))"
    )
    cross_here(
        namespace,
        "out = net(torch.ones(2, 3)); loss = out.mean(); hist.append(loss); used = net(torch.ones(1, 3)).sum()\n"
        "used.backward(); alpha = log_alpha.exp(); leaf = torch.ones(2, requires_grad=True)",
    )

    for name in ("out", "loss", "used"):
        with pytest.raises(GraphStayed):
            namespace[name].sum().backward()
    assert repr(namespace["loss"]).endswith("grad_fn=<MeanBackward0>)") and namespace["hist"][0] is namespace["loss"]
    assert namespace["leaf"].is_leaf and namespace["leaf"].requires_grad
    namespace["alpha"].backward()
    assert namespace["log_alpha"].grad.tolist() == [1.0]

    cross_here(
        namespace,
        "seen = loss.item()\ntry: out.sum().backward()\nexcept Exception as error: said = str(error)\nout = out * 2",
        *("loss", "out", "net", "torch"),
    )

    assert namespace["seen"] == namespace["loss"].item() and "stayed where that ran" in namespace["said"]
    with pytest.raises(GraphStayed):
        namespace["out"].sum().backward()


DEEP = """
import torch
from jupyter_gpufit.graph.kinds.flowing import flows_nowhere
from jupyter_gpufit.errors import GraphStayed
from jupyter_gpufit.graph.kinds.tensors import has_live_graph
x = torch.ones(2, requires_grad=True)
h, added = x, x.clone()
for _ in range(60_000):
    h, added = h * x, added + 1
assert has_live_graph(h) and has_live_graph(added) and not flows_nowhere(h) and not flows_nowhere(added)
(h + 0).sum().backward(retain_graph=True)
assert has_live_graph(h)
h.sum().backward()
assert not has_live_graph(h)
del h, added
print("freed")
"""


@pytest.mark.slow(16)
def test_a_deep_graph_that_was_looked_at_is_freed_as_any_other() -> None:
    """As of a network that is unrolled over a long sequence; each node that Python has seen is freed by a call more."""
    ran = subprocess.run([sys.executable, "-c", DEEP], capture_output=True, text=True)

    assert (ran.returncode, ran.stdout) == (0, "freed\n"), ran.stderr


def test_a_parameter_without_a_shape_keeps_its_type_and_gets_its_shape_in_the_cell() -> None:
    namespace = notebook(
        "import torch\nlazy = torch.nn.LazyLinear(3, dtype=torch.float64)\nlazy.bias.note = 'mine'\n"
        "other = torch.nn.LazyBatchNorm1d(affine=False)"
    )
    lazy = namespace["lazy"]

    cross_here(namespace, "seen = lazy.weight.data.dtype, lazy.bias.note", "torch", "lazy")
    assert namespace["seen"] == (torch.float64, "mine") and torch.nn.parameter.is_lazy(lazy.bias)

    cross_here(namespace, "y = other(lazy(torch.ones(2, 5).double()).float())")
    assert namespace["lazy"] is lazy and type(lazy) is torch.nn.Linear and lazy.weight.shape == (3, 5)
    assert lazy.weight.dtype == torch.float64 and not torch.nn.parameter.is_lazy(lazy.bias)
    assert namespace["other"].running_mean.shape == (3,)
