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


MANY = {
    "as they are": lambda x: x.clone().unsqueeze(1),
    "in another order": lambda x: x.flip(0).view(-1, 100).t(),
    "times a number, some of them": lambda x: (x * 0.3)[50:],
    "each by its own": lambda x: (x * 2).sin(),
    "of float64": lambda x: x.double().neg(),
}


@pytest.mark.parametrize("how", MANY)
def test_of_many_elements_each_finds_the_one_that_it_was_made_of(how: str) -> None:
    leaf = torch.randn(10_000, requires_grad=True)
    made = MANY[how](leaf)
    found = slopes_of(made)
    assert found is not None
    grad = torch.randn(made.size(), dtype=made.dtype)
    (plain,) = torch.autograd.grad(made, leaf, grad, retain_graph=True)
    (ours,) = torch.autograd.grad(sloped(made.detach(), *found), leaf, grad)
    assert torch.equal(plain, ours) and int((plain != 0).sum()) > 9_000


@pytest.mark.parametrize("compute", [lambda x: x.cumsum(0), lambda x: x.mean() * x, lambda x: x.view(-1, 2).sum(1)])
def test_of_many_elements_that_are_made_of_several_it_is_not_so(compute: object) -> None:
    made = compute(torch.randn(10_000, requires_grad=True))  # type: ignore[operator]
    assert (slopes_of(made) is None) == (made.numel() == 10_000)


def test_points_of_which_an_equation_has_the_slope_travel() -> None:
    setup = """
import torch
torch.manual_seed(0)
net = torch.nn.Linear(1, 1)
places = torch.linspace(0, 1, 300, requires_grad=True)
X = places.clone().unsqueeze(1)
"""
    learns = """
for _ in range(3):
    slope, = torch.autograd.grad(net(X).sin(), X, torch.ones(300, 1), create_graph=True)
    (slope - torch.cos(X.detach())).square().mean().backward()
    (X.sum() * 0.5).backward()
result = net.weight.grad.tolist(), places.grad.tolist()
"""
    namespace, plain = notebook(setup), notebook(setup, learns)
    cross_here(namespace, learns)
    assert namespace["result"] == plain["result"]
