"""What could have been another number on several devices is compared with the whole batch's, or refused."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from jupyter_gpufit.errors import CannotPart
from jupyter_gpufit.fit.several.calls import around
from jupyter_gpufit.fit.several.group import ShapesOnly
from jupyter_gpufit.fit.several.parts import rows_of

from .idioms import MANY, WIDE, Recurrent
from .ranks import far, run_on

pytestmark = pytest.mark.slow(1)


class Mixes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(3, 3)


class Leaves(Mixes):
    """Its loss's second part is an attribute."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z: torch.Tensor = self.mix(x)
        self.kl = z.square().sum() / len(x)
        return z


class Keeps(Mixes):
    """The same, in a list."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z: torch.Tensor = self.mix(x)
        self.kept = [z, z.square().sum() / len(x)]
        return z


@dataclass
class Said:
    z: torch.Tensor
    kl: torch.Tensor


class Tells(Mixes):
    def forward(self, x: torch.Tensor) -> Said:
        z = self.mix(x)
        return Said(z, z.square().sum() / len(x))


class Counts(Mixes):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        return self.mix(x), len(x)


class Hides(Mixes):
    def forward(self, x: torch.Tensor) -> Any:
        z = self.mix(x) / x.shape[0]
        return lambda: z


class Holds(Mixes):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z: torch.Tensor = self.mix(x)
        z.retain_grad()
        return z.square()


def hooked() -> nn.Module:
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    model[0].register_full_backward_hook(lambda module, given, made: None)
    return model


class Gate(torch.autograd.Function):
    """As shake-shake's: another gate for each sample on the way back."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rand(len(x), 1)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad * torch.rand(len(grad), 1)


class Shakes(Mixes):
    def forward(self, x: torch.Tensor) -> Any:
        return Gate.apply(self.mix(x))  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (Shakes, "the backward of Gate draws random numbers"),
        (Leaves, "what it leaves in attributes, kl, differs by 100"),
        (Keeps, r"what it leaves in attributes, kept\[1\], differs by 100"),
        (Tells, "what it returns, kl, differs by 100"),
        (Counts, r"what it returns, \[1\], is 2 where the whole batch makes 4"),
        (Hides, "it returns a function, into which nobody can look"),
        (Holds, "it looks at gradients inside of it"),
        (hooked, "it has hooks that look at gradients inside of it"),
    ],
)
def test_what_could_be_another_number_is_refused(make: Any, why: str) -> None:
    def cell() -> None:
        torch.manual_seed(0)
        make()(torch.randn(4, 3))

    with pytest.raises(CannotPart, match=f"cannot be trained on several devices.*{why}"):
        run_on(2, cell)


class Sees(Mixes):
    """Returns what is no tree, and leaves in attributes what the cell and hooks use."""

    def forward(self, x: torch.Tensor) -> Said:
        self.hidden = self.mix(x)
        self.hidden.register_hook(self.look)
        return Said(self.hidden.tanh(), self.hidden.square().mean())

    def look(self, grad: torch.Tensor) -> torch.Tensor:
        self.grad = grad
        return grad * grad.abs().sum()


def test_objects_attributes_and_hooks_have_the_whole_batch() -> None:
    def cell() -> list[torch.Tensor]:
        torch.manual_seed(0)
        model, x = Sees(), torch.randn(5, 3)
        found = []
        for _ in range(3):
            said = model(x)
            (said.z.std() + said.kl + model.hidden.amax()).backward()
            found += [model.grad, *(p.grad.clone() for p in model.parameters() if p.grad is not None)]
        return found

    one = run_on(1, cell)[0]

    for other in run_on(2, cell):
        assert far(other, one) < 1e-5


def test_what_a_model_keeps_from_call_to_call_is_whole_in_between() -> None:
    """Where a checkpoint of the first rank finds it."""

    def cell() -> list[Any]:
        torch.manual_seed(0)
        model, found = Recurrent(keeps=True), []
        for _ in range(3):
            model(torch.randn(MANY, 5, WIDE))
            found.append([(rows_of(t) is None, tuple(t.shape)) for t in model.state])
        return found

    assert run_on(2, cell) == [[[(True, (1, MANY, 6))] * 2] * 3] * 2


class Sums(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, dim: int = 1, how: str = "", step: int = 1) -> torch.Tensor:
        return self.mix(x).sum(0 if how == "over" else dim * step % 2)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "given",
    [
        [{"dim": 1}, {"dim": 0}, {"dim": 1}],
        [{"how": "beside"}, {"how": "over"}, {"how": "beside"}],
        [{"step": step} for step in (*range(40), 1)],
    ],
    ids=["number", "word", "another number in each call"],
)
def test_what_is_no_tensor_among_the_arguments_makes_it_another_call(given: list[dict[str, Any]]) -> None:
    def cell() -> list[torch.Tensor]:
        torch.manual_seed(0)
        model, x = Sums(), torch.randn(4, 4)
        return [model(x, **more).detach() for more in given]

    one = run_on(1, cell)[0]

    for other in run_on(2, cell):
        assert far(other, one) < 1e-5


def test_a_model_that_the_cell_forgets_is_forgotten() -> None:
    with around(ShapesOnly(2)):
        model = nn.Linear(3, 2)
        for _ in range(2):
            model(torch.ones(4, 3)).sum().backward()
        gone: list[Any] = [weakref.ref(model), weakref.ref(model.weight)]
        del model
        gc.collect()

        assert [one() for one in gone] == [None, None]


class OfOneSize(Mixes):
    """Takes batches of one size, whole or in parts."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.mix(x)
        return made + torch.zeros(8, 3).clone()


class TooLarge(OfOneSize):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] == 8:
            raise torch.OutOfMemoryError
        return super().forward(x)


def test_a_model_for_batches_of_one_size_is_tried_with_one_where_there_is_room_for_fewer_samples() -> None:
    given = torch.ones(8, 3)
    with around(ShapesOnly(2)):
        for _ in range(2):
            made = OfOneSize()(given)
            assert made.shape == (8, 3)

    with pytest.raises(CannotPart, match=r"fewer samples cannot be compared: The size of tensor a"):
        run_on(2, lambda: TooLarge()(given))
