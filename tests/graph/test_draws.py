"""Generators of all three libraries go on from a state that was read."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from jupyter_gpufit.graph.kinds.draws import put_state, read_state
from jupyter_gpufit.system.objects import is_generator

from .crossing import cross_here, notebook

DRAWS: dict[str, Callable[[], tuple[Any, Callable[[Any], Any]]]] = {
    "python": lambda: (random.Random(3), lambda one: one.random()),
    "generator": lambda: (np.random.default_rng(3), lambda one: one.random()),
    "legacy": lambda: (np.random.RandomState(3), lambda one: one.rand()),
    "other bits": lambda: (np.random.RandomState(np.random.Philox(3)), lambda one: one.randn()),
    "torch": lambda: (torch.Generator().manual_seed(3), lambda one: torch.rand(2, generator=one).tolist()),
}


@pytest.mark.parametrize("name", DRAWS)
def test_it_draws_the_same_again(name: str) -> None:
    generator, draw = DRAWS[name]()
    draw(generator)
    state = pickle.loads(pickle.dumps(read_state(generator)))
    drawn = [draw(generator) for _ in range(5)]

    put_state(generator, state)

    assert is_generator(generator)
    assert [draw(generator) for _ in range(5)] == drawn


def test_what_has_no_state_is_none() -> None:
    assert not is_generator(random.SystemRandom())
    assert not is_generator(np.random)
    assert not is_generator(object())


def test_one_of_a_class_made_of_numpys_goes_on_whatever_its_own_reduce_does() -> None:
    """gym's calls what NumPy 2 has no more."""
    namespace: dict[str, Any] = notebook(
        "import numpy as np\n"
        "class Draws(np.random.Generator):\n"
        "    def __reduce__(self): raise ValueError('is not a known BitGenerator module')\n"
        "draws = Draws(np.random.PCG64(3))\ndraws.name = 'mine'\nbits = draws.bit_generator\n"
    )
    expected = np.random.default_rng(3).random(2)

    cross_here(
        namespace,
        "first = draws.random(), draws.name, draws.bit_generator is bits, type(draws) is Draws",
        *("draws", "bits"),
    )

    assert namespace["first"] == (expected[0], "mine", True, True)
    assert namespace["draws"].random() == expected[1]
