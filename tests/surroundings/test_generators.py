"""The states of generators are read and set wherever a module is imported."""

from __future__ import annotations

import torch
from torch.func import grad, vmap

from jupyter_gpufit.surroundings import generators


def test_what_an_import_draws_inside_of_a_transform_is_seen_and_taken_back() -> None:
    """vmap imports the compiler when it is first called, in the midst of it."""
    found = []

    def imports(x: torch.Tensor) -> torch.Tensor:
        before = generators.of_host()
        found.append(generators.drawn_since(before))
        torch.rand(1)
        found.append(generators.drawn_since(before))
        generators.restore_host(before)
        found.append(generators.drawn_since(before))
        return x.sum()

    vmap(grad(imports), randomness="different")(torch.ones(2, 3))

    assert found == [False, True, False]
