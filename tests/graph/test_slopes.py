"""Tensors that were computed of a leaf, which travel with the way of a gradient back to it."""

from __future__ import annotations

import pytest
import torch

from jupyter_gpufit.graph.kinds.slopes import sloped, slopes_of
from tests.graph.crossing import cross_here, notebook

pytestmark = pytest.mark.slow  # imports torch

SETUP = """
import torch
torch.manual_seed(0)
class Agent: pass
agent = Agent()
agent.log_alpha = torch.tensor([-0.37, 1.9], requires_grad=True)
agent.alpha = agent.log_alpha.exp()
optimizer = torch.optim.Adam([agent.log_alpha], lr=0.1)
"""
LEARNS = """
for _ in range(5):
    loss = (agent.alpha * torch.tensor([0.123, -4.56])).sum()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    agent.alpha = agent.log_alpha.exp()
result = agent.log_alpha.tolist(), agent.log_alpha.grad.tolist()
"""


def test_a_gradient_comes_to_the_leaf_as_in_the_notebook() -> None:
    namespace, plain = notebook(SETUP), notebook(SETUP, LEARNS)
    cross_here(namespace, LEARNS)
    assert namespace["result"] == plain["result"]


def test_a_second_backward_fails_where_the_graph_would_have_been_used_up() -> None:
    namespace = notebook(
        "import torch\nleaf = torch.ones(2, requires_grad=True)\nused, stays = leaf.exp(), leaf.double()"
    )
    cross_here(
        namespace,
        """
said = []
for t in (used, stays):
    for _ in range(2):
        try: t.sum().backward()
        except RuntimeError as error: said.append(str(error)[:40])
grad = leaf.grad.tolist()""",
    )
    assert namespace["said"] == ["Trying to backward through the graph a s"]
    assert namespace["grad"] == (torch.ones(2).exp() + 2).tolist()


@pytest.mark.parametrize("compute", [torch.exp, torch.neg, torch.Tensor.double, torch.Tensor.clone])
def test_what_was_made_can_be_made_again(compute: object) -> None:
    leaf = torch.randn(5, requires_grad=True)
    first = slopes_of(compute(leaf))  # type: ignore[operator]
    assert first is not None
    again = slopes_of(sloped(compute(leaf).detach(), *first))  # type: ignore[operator]
    assert again is not None and again[1] == first[1]
    assert [(one.at, one.factors) for one in again[0]] == [(one.at, one.factors) for one in first[0]]


def test_what_is_used_up_has_no_way_back() -> None:
    leaf = torch.randn(3, requires_grad=True)
    first = slopes_of(leaf.exp())
    assert first is not None
    for t in (leaf.exp(), sloped(leaf.exp().detach(), *first)):
        t.sum().backward()
        assert slopes_of(t) is None
