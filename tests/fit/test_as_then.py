"""What a cell changes between a forward and its backward: a second run finds what the first found, or is refused."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from jupyter_gpufit.errors import NotTheSameAgain
from jupyter_gpufit.fit.rungs import recompute
from jupyter_gpufit.fit.rungs.belongings import Belongings
from jupyter_gpufit.fit.units import looks_of

from .models import GPT, WIDE, WORDS, Dense, Encoder, Pictures, batch, loss_of
from .runs import Step, differ, plain, trained


class Switched(nn.Module):
    """Computes in one of two ways."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other, self.tail = (nn.Linear(WIDE, WIDE) for _ in range(3))
        self.way, self.scale = 0, 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen = self.other if self.way else self.one
        return x + self.tail(torch.tanh(chosen(x)) * self.scale)  # type: ignore[no-any-return]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, WIDE), nn.Linear(WIDE, WORDS)
        self.blocks = nn.ModuleList(Switched() for _ in range(3))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.words(words)
        for block in self.blocks:
            x = block(x)
        return self.head(x)  # type: ignore[no-any-return]


BLOCKS = ("blocks.0", "blocks.1", "blocks.2")


@contextmanager
def stepping(optimizer: torch.optim.Optimizer) -> Iterator[list[torch.Tensor]]:
    """Go back through all losses, and step."""
    losses: list[torch.Tensor] = []
    optimizer.zero_grad()
    yield losses
    torch.stack(losses).sum().backward()
    optimizer.step()


def switches_a_mode(model: Any, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    with stepping(optimizer) as losses:
        losses.append(loss_of(model(words := batch()), words))
        for block in model.blocks:
            block.way, block.scale = 1, 0.3
        losses.append(loss_of(model(words), words))
    for block in model.blocks:
        block.way, block.scale = 0, 1.0
    return losses[0] + losses[1]


def puts_another_module_in(model: Any, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    before = model.blocks[0].one
    with stepping(optimizer) as losses:
        losses.append(loss_of(model(words := batch()), words))
        model.blocks[0].one = nn.Linear(WIDE, WIDE)
    model.blocks[0].one = before
    return losses[0]


def freezes_and_thaws(model: Any, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    model.blocks[0].requires_grad_(False)
    with stepping(optimizer) as losses:
        losses.append(loss_of(model(words := batch()), words))
        model.blocks[0].requires_grad_(True)
    assert all(p.requires_grad for p in model.parameters())
    return losses[0]


def learns_to_learn(model: Any, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    """With parameters that are the model's for one call."""
    own, words = dict(model.named_parameters()), batch()
    with stepping(optimizer) as losses:
        first = loss_of(functional_call(model, own, (words,)), words)
        grads = torch.autograd.grad(first, list(own.values()), create_graph=True, allow_unused=True)
        quick = {name: p - 0.5 * g if g is not None else p for (name, p), g in zip(own.items(), grads, strict=True)}
        losses.append(loss_of(functional_call(model, quick, (words,)), words))
    return losses[0]


def listens_later(model: Any, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    """By hooks that no trial run saw."""
    heard: list[torch.Tensor] = []
    hook = model.blocks[1].tail.register_forward_hook(lambda module, given, out: heard.append(out.detach().sum()))
    loss = plain(model, optimizer)
    hook.remove()
    return loss + len(heard)


@pytest.mark.parametrize(
    "step", [switches_a_mode, puts_another_module_in, freezes_and_thaws, learns_to_learn, listens_later]
)
def test_the_second_run_is_as_the_first_was(step: Step) -> None:
    assert differ(trained(Net, None, step, steps=2), trained(Net, BLOCKS, step, steps=2)) == []


def out_of_training(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    with stepping(optimizer) as losses:
        losses.append(loss_of(said := model(words := batch()), words))
        model.eval()
        losses.append(F.mse_loss(model(words), said))
    assert not model.training
    model.train()
    return losses[1]


def test_a_model_that_is_taken_out_of_training_before_its_backward() -> None:
    blocks = [path for path, _ in Encoder().encoder.layers.named_children()]
    paths = [f"encoder.layers.{path}" for path in blocks]

    assert differ(trained(Encoder, None, out_of_training), trained(Encoder, paths, out_of_training)) == []


def test_kernels_that_were_chosen_for_the_forward_alone() -> None:
    def chosen(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
        with stepping(optimizer) as losses, sdpa_kernel(SDPBackend.MATH):
            losses.append(loss_of(model(words := batch()), words))
        return losses[0]

    assert differ(trained(GPT, None, chosen), trained(GPT, BLOCKS, chosen)) == []


def test_what_was_changed_in_place_meanwhile_is_refused_by_name() -> None:
    model: Any = Net()
    with recompute.around({looks_of(model): BLOCKS}):
        loss = model(batch()).sum()
        with torch.no_grad():
            model.blocks[1].tail.bias.add_(1)  # which plain torch does not miss: a bias is not needed in backward
        with pytest.raises(NotTheSameAgain, match="Switched cannot be recomputed.*--fit spill"):
            loss.backward()


def test_a_weight_that_each_forward_changes_is_refused_and_no_other_bits_come_out() -> None:
    def normed() -> nn.Module:
        model: Any = Dense()
        nn.utils.parametrizations.spectral_norm(model[0][0])
        return model  # type: ignore[no-any-return]

    with pytest.raises(NotTheSameAgain):
        trained(normed, ("0",))


def test_statistics_that_change_between_two_forwards_are_no_reason() -> None:
    def twice(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
        with stepping(optimizer) as losses:
            losses += [loss_of(model(words := batch()), words) for _ in range(2)]
        return losses[1]

    paths = ("blocks.0", "blocks.1", "blocks.2")
    assert differ(trained(Pictures, None, twice), trained(Pictures, paths, twice)) == []


class Past:
    """What layers have said so far."""

    def __init__(self) -> None:
        self.layers: list[list[torch.Tensor]] = []


class Remembers(nn.Module):
    """Adds to what it is given, counts, and draws, all of it also into what it returns."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.rng = nn.Linear(WIDE, WIDE), np.random.default_rng(3)
        self.calls, self.said, self.named = 0, [1.0], {"scale": 1.0}

    def forward(self, x: torch.Tensor, past: Past) -> torch.Tensor:
        self.calls += 1
        past.layers.append([torch.tanh(self.mix(x))])
        past.layers[0].append(x)
        self.said.append(self.said[-1] / 2)
        self.named["scale"] += len(past.layers) + len(past.layers[0])
        drawn = [random.random(), float(np.random.rand()), float(self.rng.random())] if self.calls > 2 else [1.0]
        # What backward needs is made of all of it: what else a second run came to would be another gradient.
        scale = self.said[-1] * self.named["scale"] * sum(drawn) * self.calls
        return torch.tanh(torch.tanh(x * scale) + past.layers[-1][0])


class WithPast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        random.seed(1)
        np.random.seed(1)
        self.words, self.head = nn.Embedding(WORDS, WIDE), nn.Linear(WIDE, WORDS)
        self.blocks = nn.ModuleList(Remembers() for _ in range(3))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x, past = self.words(words), Past()
        for block in self.blocks:
            x = block(x, past)
        self.drawn = random.random(), float(np.random.rand())
        return self.head(x) * sum(self.drawn)  # type: ignore[no-any-return]


def blocks_of(model: WithPast) -> list[Remembers]:
    return [one for one in model.modules() if isinstance(one, Remembers)]


def test_what_a_forward_adds_to_counts_and_draws_is_done_once() -> None:
    ended: list[WithPast] = []

    def make() -> WithPast:
        ended.append(WithPast())
        return ended[-1]

    assert differ(trained(make, None, steps=5), trained(make, BLOCKS, steps=5)) == []
    plain_one, again = (
        [(one.calls, one.said, one.named, one.rng.random()) for one in blocks_of(model)] for model in ended[-2:]
    )
    assert plain_one == again and plain_one[0][0] == 5
    assert ended[-2].drawn == ended[-1].drawn, "also those drawn after the blocks"


class Asks(nn.Module):
    """Computes by what it is given and what it has, and does as it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(WIDE, WIDE)
        self.mem, self.tally, self.numbers, self.held = [1.0], Counter[int](), np.ones(2), torch.ones(3)

    def forward(self, x: torch.Tensor, asked: dict[str, Any]) -> torch.Tensor:
        past = asked["past"]
        if asked["adds"]:
            past.append(torch.tanh(self.mix(x)))
        scale = asked["scale"] * (1 + len(past)) * sum(self.mem) * (1 + self.tally[1]) * float(self.numbers.sum())
        for one in asked["does"]:
            one(self)
        return torch.tanh(torch.tanh(self.mix(x) * scale) + past[-1])


class Asked(nn.Module):
    """Changes what its blocks were given, or what they have, once they have run."""

    def __init__(self, changes: str = "") -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, WIDE), nn.Linear(WIDE, WORDS)
        self.blocks = nn.ModuleList(Asks() for _ in range(3))
        self.changes = changes
        self.asked: dict[str, Any] = {"does": [], "scale": 1.0, "adds": False}

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.words(words)
        self.asked["past"] = [x]
        for number, block in enumerate(self.blocks):
            if self.changes == "what it gives":
                self.asked["scale"] = 0.5 * (number + 1)
            if self.changes == "a list of all":
                self.asked["adds"] = number != 1  # the second one only reads
            x = block(x, self.asked)
        for block in self.blocks:
            if self.changes == "what they have":
                block.mem.append(0.5)  # type: ignore[operator, union-attr]
        return self.head(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize("changes", ["what it gives", "a list of all", "what they have"])
def test_what_others_change_after_a_block_has_run_is_as_it_was(changes: str) -> None:
    ended: list[Asked] = []

    def make() -> Asked:
        ended.append(Asked(changes))
        return ended[-1]

    assert differ(trained(make, None), trained(make, BLOCKS)) == []
    plain_one, again = ended[-2:]
    assert len(plain_one.asked["past"]) == len(again.asked["past"])
    assert plain_one.asked["scale"] == again.asked["scale"]
    assert [one.mem for one in plain_one.blocks] == [one.mem for one in again.blocks]


def counts(block: Any) -> None:
    block.tally[1] += 1


def adds_in_place(block: Any) -> None:
    block.held.add_(1)


def adds_to_an_array(block: Any) -> None:
    block.numbers += 1


@pytest.mark.parametrize("does", [counts, adds_in_place, adds_to_an_array])
def test_what_cannot_be_put_back_is_refused_by_name_whoever_changed_it(does: Callable[[Any], None]) -> None:
    by_itself, by_others = Asked(), Asked()
    by_itself.asked["does"].append(does)
    for model in (by_itself, by_others):
        with recompute.around({looks_of(model): BLOCKS}):
            loss = model(batch()).sum()
            if model is by_others:
                does(model.blocks[1])
            with pytest.raises(NotTheSameAgain, match="Asks cannot be recomputed"):
                loss.backward()


@pytest.mark.slow(5)
@pytest.mark.parametrize("many", [[[] for _ in range(3000)], dict.fromkeys(range(500_000))])
def test_more_than_can_be_looked_at_is_refused_and_not_copied(many: Any) -> None:
    model = Asked()
    model.asked["many"] = many
    assert not Belongings([model.asked]).is_whole
    with recompute.around({looks_of(model): BLOCKS}):
        loss = model(batch()).sum()
        with pytest.raises(NotTheSameAgain, match="Asks cannot be recomputed"):
            loss.backward()


class NotToBeAsked(tuple[int, ...]):
    """As e3nn's irreps, whose length would be misunderstood."""

    def __len__(self) -> int:
        raise NotImplementedError

    __iter__ = __len__  # type: ignore[assignment]


def test_a_container_that_answers_for_itself_is_looked_at_all_the_same() -> None:
    inside = [1]
    one: Any = (NotToBeAsked((7, 8)), type("Mine", (dict,), {"items": None})(kept=inside))

    belongings = Belongings([one])
    inside.append(2)

    assert belongings.ran()
    with belongings.again() as stands:
        assert stands and inside == [1]
    assert inside == [1, 2]
