"""Models as people write them, each with an idiom that is hard on several devices; one training of each."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.autograd import Variable
from torch.distributions import Normal, kl_divergence
from torch.nn import functional as F

WIDE, MANY, STEPS = 8, 8, 4
Batch = tuple[Any, ...]


class Does(nn.Module):
    """A forward, and the parts that it uses."""

    def __init__(self, forward: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self._does = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *given: Any, **named: Any) -> Any:
        return self._does(self, *given, **named)


def trained(
    make: Callable[[], nn.Module],
    given: Callable[[int], Batch] = lambda many: (torch.randn(many, WIDE),),
    loss: Callable[..., torch.Tensor] = lambda model, *given: model(*given).square().mean(),
    *,
    last: int = MANY - 1,
    steps: int = STEPS,
) -> Callable[[], dict[str, Any]]:
    """The last batch is smaller."""

    def cell() -> dict[str, Any]:
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)
        model = make()
        optimizer, losses = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9), []
        for step in range(steps):
            now = loss(model, *given(MANY if step + 1 < steps else last))
            optimizer.zero_grad()
            now.backward()
            optimizer.step()
            losses.append(now.item())
        counted = {name: one for name, one in vars(model).items() if type(one) is int}
        return {"losses": losses, **{name: t.clone() for name, t in model.state_dict().items()}, **counted}

    return cell


def _halves(self: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    mean, spread = self.enter(x).chunk(2, 1)
    return mean, spread.tanh().exp()


def _new(self: Any, x: torch.Tensor) -> torch.Tensor:
    mean, spread = _halves(self, x)
    return self.leave(mean + spread * Variable(spread.data.new(spread.size()).normal_()))  # type: ignore[no-any-return]


def _tells_a_distribution(self: Any, x: torch.Tensor) -> Any:
    said = Normal(*_halves(self, x))
    return self.leave(said.rsample()), said


def _loss_of_both(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    made, said = model(x)
    apart = kl_divergence(said, Normal(torch.zeros_like(said.loc), torch.ones_like(said.loc)))
    loss: torch.Tensor = (made - x).square().mean() + apart.expand(said.batch_shape).sum(1).mean()
    return loss


def coder(forward: Callable[..., Any]) -> Callable[[], nn.Module]:
    return lambda: Does(forward, enter=nn.Linear(WIDE, WIDE), leave=nn.Linear(WIDE // 2, WIDE))


class Recurrent(nn.Module):
    """Its state has the batch's size, which it was told once, or is what the last batch left."""

    def __init__(self, *, keeps: bool) -> None:
        super().__init__()
        self.net, self.head, self.keeps = nn.LSTM(WIDE, 6, batch_first=True), nn.Linear(6, 3), keeps
        self.state = self.begin()

    def begin(self) -> Any:
        return torch.zeros(1, MANY, 6), torch.zeros(1, MANY, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out, state = self.net(x, self.state if self.keeps else self.begin())
        self.state = tuple(t.detach() for t in state)
        return self.head(out[:, -1])  # type: ignore[no-any-return]


def of_sentences(many: int) -> Batch:
    return (torch.randn(many, 5, WIDE),)


def _sees(self: Any, x: torch.Tensor) -> torch.Tensor:
    return self.head(self.net(x).view(MANY, -1))  # type: ignore[no-any-return]


def _counts(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.seen += x.shape[0]
    many, long, wide = x.shape
    y = self.head(x.view(many * long, wide))
    if x.size(0) > MANY or y.shape[0] != many * long:
        return y.sum()  # type: ignore[no-any-return]
    return y.square().sum() / (many * long) + y.sum() / float(x.size(0)) + y.abs().sum() / y.numel()  # type: ignore[no-any-return]


def _counting() -> nn.Module:
    return Does(_counts, head=nn.Linear(WIDE, 3), seen=0)


def _skips(self: Any, x: torch.Tensor) -> torch.Tensor:
    for at, layer in enumerate(self.layers):
        if not at or random.random() < 0.5:
            x = x + torch.tanh(layer(x))
    return x


def _masks(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.net.weight.data *= self.mask
    with torch.no_grad():
        self.net.bias.clamp_(-0.1, 0.1)
    return self.net(x)  # type: ignore[no-any-return]


class Averages(nn.Module):
    """Moves a second model in its forward, as MoCo and BYOL do."""

    def __init__(self) -> None:
        super().__init__()
        self.quick, self.slow = nn.Linear(WIDE, 4), nn.Linear(WIDE, 4).requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            for slow, quick in zip(self.slow.parameters(), self.quick.parameters(), strict=True):
                slow.data = slow.data * 0.9 + quick.data * 0.1
            wanted = self.slow(x)
        return self.quick(x) - wanted  # type: ignore[no-any-return]


def gated(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x) * torch.sigmoid(y)


def scripted() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # people have it all the same
        gate = torch.jit.script(gated)
    layers = {"a": nn.Linear(WIDE, 6), "b": nn.Linear(WIDE, 6), "c": nn.Linear(6, 5)}
    return Does(lambda self, x: self.c(gate(self.a(x), self.b(x))), **layers)


def _bayes(self: Any, x: torch.Tensor) -> torch.Tensor:
    """Most of what it computes has no samples."""
    weight = self.mean + F.softplus(self.spread) * torch.randn_like(self.mean)
    self.apart = (self.mean.square() + F.softplus(self.spread)).sum()
    return F.linear(x, weight)


def bayes() -> nn.Module:
    return Does(_bayes, mean=nn.Parameter(torch.randn(5, WIDE)), spread=nn.Parameter(torch.zeros(5, WIDE)))


def _bounded() -> nn.Module:
    words, head = nn.Embedding(20, 8, max_norm=1.0), nn.Linear(8, 3)
    return Does(lambda self, at: self.head(self.words(at).mean(1)), words=words, head=head)


def _in_place(model: Any, x: torch.Tensor) -> torch.Tensor:
    inside = model.one(x)
    return model.two(inside).square().mean() + inside.mean() + x.mean() * model.two(x * 1).sum()  # type: ignore[no-any-return]


def _scaled_in_place(self: Any, x: torch.Tensor) -> torch.Tensor:
    loss: torch.Tensor = self.head(x).square().sum()
    loss /= x.size(0)
    return loss


def _from_numpy(self: Any, x: torch.Tensor) -> torch.Tensor:
    ones = torch.from_numpy(np.eye(3)).to(x).flatten().view(1, 9).repeat(x.size()[0], 1)
    return (self.head(x) + ones).view(-1, 3, 3)  # type: ignore[no-any-return]


IDIOMS: dict[str, Callable[[], dict[str, Any]]] = {
    "noise by new()": trained(coder(_new)),
    "a distribution": trained(coder(_tells_a_distribution), loss=_loss_of_both),
    "a state of a fixed size": trained(lambda: Recurrent(keeps=False), of_sentences, last=MANY),
    "a state that is kept": trained(lambda: Recurrent(keeps=True), of_sentences, last=MANY),
    "a view of a fixed size": trained(
        lambda: Does(_sees, net=nn.Conv2d(3, 4, 3), head=nn.Linear(64, 5)),
        lambda many: (torch.randn(many, 3, 6, 6),),
        last=MANY,
    ),
    "sizes in sums": trained(_counting, of_sentences, lambda model, x: model(x)),
    "layers by chance": trained(
        lambda: Does(_skips, layers=nn.ModuleList(nn.Linear(WIDE, WIDE) for _ in range(4))), steps=24
    ),
    "weights that are masked": trained(
        lambda: Does(_masks, net=nn.Linear(WIDE, 4), mask=nn.Buffer((torch.rand(4, WIDE) < 0.5).float()))
    ),
    "weights that are averaged": trained(Averages),
    "a function of TorchScript": trained(scripted),
    "weights by chance": trained(bayes, loss=lambda model, x: model(x).square().mean() + 1e-3 * model.apart),
    "vectors of a bounded length": trained(_bounded, lambda many: (torch.randint(0, 20, (many, 4)),)),
    "an input changed in place": trained(
        lambda: Does(
            lambda self, x: x, one=nn.Linear(WIDE, WIDE), two=nn.Sequential(nn.ReLU(inplace=True), nn.Linear(WIDE, 4))
        ),
        loss=_in_place,
    ),
    "a loss changed in place": trained(
        lambda: Does(_scaled_in_place, head=nn.Linear(WIDE, 4)), loss=lambda model, x: model(x)
    ),
    "slopes by chance": trained(
        lambda: nn.Sequential(nn.Linear(WIDE, WIDE), nn.RReLU(), nn.Linear(WIDE, 4), nn.RReLU(inplace=True))
    ),
    "an array in between": trained(lambda: Does(_from_numpy, head=nn.Linear(WIDE, 9))),
}
