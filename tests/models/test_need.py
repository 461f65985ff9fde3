"""What is claimed for a model."""

from __future__ import annotations

from jupyter_gpufit.models.need import ModelNeed, claimed
from jupyter_gpufit.units import MiB

NEED = ModelNeed(weights=100 * MiB, file=100 * MiB, activations=10 * MiB, runtime=50 * MiB)


def test_loading_counts_where_it_takes_more_than_running() -> None:
    assert NEED.total == 250 * MiB


def test_before_the_first_load_it_is_foreseen_and_says_of_what() -> None:
    found = claimed(NEED, [])
    assert found.memory == 250 * MiB
    assert found.reason == "claims 250.0 MiB: 100.0 MiB of weights, 10.0 MiB alive at once"


def test_afterwards_it_is_what_it_took_and_both_are_said() -> None:
    found = claimed(NEED, [190 * MiB, 200 * MiB])
    assert found.memory == round(220 * MiB)
    assert found.reason == "claims 220.0 MiB: it took 200.0 MiB before; 250.0 MiB were expected"


def test_operators_of_unknown_size_are_named() -> None:
    need = ModelNeed(weights=0, file=0, activations=MiB, runtime=0, unknown=("NonZero",))
    assert need.words == "0 B of weights, 1.0 MiB alive at once (without what NonZero make)"
