"""Generators that libraries keep: what else stands beside them is not disturbed by a look."""

from __future__ import annotations

import random
from types import ModuleType

from jupyter_gpufit.surroundings import own_generators
from jupyter_gpufit.surroundings.changes import ChangedHolder
from jupyter_gpufit.surroundings.imports import Watch


class Lazy:
    """As a LocalProxy, or what imports its module when it is first used."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        raise RuntimeError("working outside of a context")


class Silent(random.Random):
    def getstate(self) -> tuple[int, ...]:
        raise NotImplementedError


def test_a_lazy_object_is_not_asked_for_its_class() -> None:
    module = ModuleType("library")
    module.lazy, module.silent, module.drawn = Lazy(), Silent(), random.Random(3)  # type: ignore[attr-defined]

    watch = Watch()
    watch._held[0] = ChangedHolder(("library", ()), module)

    [(place, state)] = own_generators.states(watch, {"library"})

    assert place == ("library", ((".", "drawn"),)) and state == random.Random(3).getstate()
