"""Trainings as cells have them, each with what is hard about it on several devices; each returns all it came to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from tests.fit.models import GPT, MODELS, OPTIMIZERS, WORDS, Pictures, batch, loss_of
from tests.fit.programs import PROGRAMS
from tests.fit.runs import Step, plain

STEPS = 5


def come_to(losses: list[float], *models: nn.Module) -> dict[str, Any]:
    """What is compared."""
    found: dict[str, Any] = {"losses": losses, "generator": torch.get_rng_state()}
    for at, model in enumerate(models):
        found |= {f"{at} {name}": t.clone() for name, t in model.state_dict().items()}
    return found


def steps_of(make: Callable[[], nn.Module], step: Step = plain, steps: int = STEPS) -> Callable[[], dict[str, Any]]:
    def cell() -> dict[str, Any]:
        torch.manual_seed(0)
        model = make()
        optimizer = OPTIMIZERS["SGD"](model.parameters())
        return come_to([step(model, optimizer).item() for _ in range(steps)], model)

    return cell


def uneven_batches() -> dict[str, Any]:
    """The last one is smaller, and one has a single sample."""
    torch.manual_seed(0)
    model, losses = GPT(dropout=0.1), []
    optimizer = OPTIMIZERS["SGD"](model.parameters())
    for many in (5, 7, 3, 1, 5):
        words = torch.randint(0, WORDS, (many, 8))
        loss = loss_of(model(words), words)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return come_to(losses, model)


class Mixture(nn.Module):
    """A loss of its own, over labels of which some do not count, with weights that are learnt and a regulariser."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, 16), nn.Linear(16, WORDS)
        self.start = nn.Parameter(torch.zeros(1, 1, 16))
        self.scales = nn.Parameter(torch.zeros(2))

    def forward(self, words: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        x = torch.cat([self.start.expand(words.shape[0], -1, -1), self.words(words)[:, 1:]], 1)
        logits = self.head(x)
        said = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), label_smoothing=0.1)
        near = (x - x.mean(0)).square().mean() + F.mse_loss(x[:, 0], x[:, 1]) + x.std()
        kept = logits[labels != -100].logsumexp(-1).mean()
        loss = (said * (-self.scales[0]).exp() + near * (-self.scales[1]).exp() + self.scales.sum()) + 1e-2 * kept
        return {"loss": loss + 1e-3 * self.head.weight.square().sum(), "logits": logits}


def a_loss_inside() -> dict[str, Any]:
    torch.manual_seed(0)
    model, losses = Mixture(), []
    optimizer = OPTIMIZERS["SGD"](model.parameters())
    for _ in range(STEPS):
        words = torch.randint(0, WORDS, (6, 8))
        labels = words.where(torch.rand(6, 8) > torch.linspace(0.1, 1.0, 6)[:, None], -100)  # the last ones have none
        out = model(words, labels=labels)
        optimizer.zero_grad()
        out["loss"].backward()
        optimizer.step()
        losses.append(out["loss"].item())
    return come_to(losses, model)


def adversaries() -> dict[str, Any]:
    """Two models and two optimizers: gradients go through one to the other, and a penalty takes gradients of them."""
    torch.manual_seed(0)
    makes = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 8))
    judges = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    of_makes, of_judges = OPTIMIZERS["SGD"](makes.parameters()), OPTIMIZERS["SGD"](judges.parameters())
    losses = []
    for _ in range(STEPS):
        real, drawn = torch.randn(6, 8), torch.randn(6, 4)
        made = makes(drawn)
        between = (real + made.detach()).div(2).requires_grad_()
        (slope,) = torch.autograd.grad(judges(between).sum(), between, create_graph=True)
        loss = judges(made.detach()).mean() - judges(real).mean() + (slope.norm(dim=1) - 1).square().mean()
        of_judges.zero_grad()
        loss.backward()
        of_judges.step()
        other = -judges(makes(drawn)).mean()
        of_makes.zero_grad()
        other.backward()
        of_makes.step()
        losses += [loss.item(), other.item()]
    return come_to(losses, makes, judges)


class TimeFirst(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.GRU(4, 8, 2, dropout=0.3), nn.Linear(8, 3)

    def forward(self, given: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        start = torch.zeros(2, given["x"].shape[1], 8)  # (L, B, H)
        out, last = self.rnn(given["x"], start)  # (T, B, C)
        return self.head(out).view(-1, 3), last  # (T*B, 3)


def time_first() -> dict[str, Any]:
    torch.manual_seed(0)
    model, losses = TimeFirst(), []
    optimizer = OPTIMIZERS["SGD"](model.parameters())
    for long in (7, 5, 7):
        x = torch.randn(long, 6, 4)
        said, last = model({"x": x, "name": "a"})
        loss = F.mse_loss(said, x[..., :3].flatten(0, 1)) + last.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return come_to(losses, model)


class Triples(torch.autograd.Function):
    """A function of a user's, which torch calls past every mode."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, w)
        return 3 * x * w

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        x, w = ctx.saved_tensors
        return 3 * grad * w, (3 * grad * x).sum(0)


class Again(nn.Module):
    """Parts are computed again in backward, with dropout; a weight is a function of another; and hooks keep rows."""

    def __init__(self, reentrant: bool = False) -> None:
        super().__init__()
        self.first = nn.utils.parametrizations.weight_norm(nn.Linear(8, 8))
        self.block = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Tanh())
        self.scale, self.reentrant = nn.Parameter(torch.ones(8)), reentrant
        self.hidden = torch.zeros(())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.hidden = x = Triples.apply(self.first(x), self.scale)  # type: ignore[no-untyped-call]
        return checkpoint(self.block, x, use_reentrant=self.reentrant)  # type: ignore[no-any-return]


def computed_again(reentrant: bool = False) -> dict[str, Any]:
    torch.manual_seed(0)
    model, losses = Again(reentrant), []
    optimizer = OPTIMIZERS["SGD"](model.parameters())
    for _ in range(STEPS):
        loss = model(torch.randn(6, 8)).square().mean() + model.hidden.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return come_to(losses, model)


def scaled() -> dict[str, Any]:
    """In half precision, with gradients that are scaled and clipped; ends by a validation's loss."""
    torch.manual_seed(0)
    model, losses = Pictures(), []
    optimizer, scaler = OPTIMIZERS["SGD"](model.parameters()), torch.amp.GradScaler("cpu")
    best = 1e9
    for _ in range(STEPS):
        words = batch()
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_of(model(words), words)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
        model.eval()
        with torch.no_grad():
            now = loss_of(model(words := batch()), words).item()
        model.train()
        losses += [loss.item(), now]
        if now > 2 * best:
            break
        best = min(best, now)
    return come_to(losses)


def sparse() -> dict[str, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(WORDS, 4, sparse=True), nn.Flatten(), nn.Linear(32, 3))
    optimizer, losses = torch.optim.SGD(model.parameters(), 0.1), []
    for _ in range(STEPS):
        loss = model(batch()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        assert isinstance(model[0].weight, torch.Tensor) and model[0].weight.grad.is_sparse  # type: ignore[union-attr]
        optimizer.step()
        losses.append(loss.item())
    return come_to(losses, model)


def over(names: list[str]) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    for name in names:
        yield name, steps_of(MODELS[name])


def programs() -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Those of one device, of which some need a model that they can do with."""
    for step in PROGRAMS:
        # Whose roundings are made large by a sign, half precision, or the difference of two gradients.
        if step.__name__ not in ("autocast", "scaled", "regulariser", "an_optimizer_that_looks_back"):
            yield step.__name__, steps_of(Pictures, step, 3)


CELLS: dict[str, Callable[[], dict[str, Any]]] = {
    "uneven batches": uneven_batches,
    "a loss inside": a_loss_inside,
    "adversaries": adversaries,
    "time first": time_first,
    "computed again": computed_again,
    "computed again, reentrant": lambda: computed_again(True),
    "sparse": sparse,
}
