"""Another value of a name, put where earlier cells have left the old one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from jupyter_gpufit.estimate.tracing.swept import put
from jupyter_gpufit.graph import receive, ship
from jupyter_gpufit.graph.kinds.loader_iterators import noted


class Plain:
    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


@dataclass(frozen=True)
class Frozen:
    batch_size: int = 8


def _put(namespace: dict[str, Any], name: str, value: int = 64, was: dict[str, int] | None = None) -> tuple[str, ...]:
    return put("train()", namespace, {name: value}, was or {})


def test_reaches_the_settings_that_an_object_holds_and_what_it_took_from_them() -> None:
    """transformers' Trainer, made with settings that no variable has."""
    args = Plain(per_device_train_batch_size=8, per_device_eval_batch_size=8, train_steps=8)
    trainer = Plain(args=args, _train_batch_size=8, size=8)

    assert _put({"trainer": trainer}, "per_device_train_batch_size") == ()

    assert vars(args) == {"per_device_train_batch_size": 64, "per_device_eval_batch_size": 8, "train_steps": 8}
    assert (trainer._train_batch_size, trainer.size) == (64, 8)  # type: ignore[attr-defined]


def test_reaches_settings_that_are_frozen_and_those_in_others() -> None:
    frozen, inner = Frozen(), Plain(batch_size=8)

    assert _put({"frozen": frozen, "config": Plain(trainer=inner)}, "batch_size") == ()

    assert frozen.batch_size == 64 and inner.batch_size == 64  # type: ignore[attr-defined]


def test_a_loader_was_made_with_a_setting() -> None:
    config = {"train_batch": 8}
    data = TensorDataset(torch.zeros(100))
    loader, other = (DataLoader(data, batch_size=size) for size in (8, 50))

    assert _put({"config": config, "fit": Plain(loaders=[loader, other])}, "train_batch") == ()

    assert loader.batch_size == 64 and len(loader) == 2 and other.batch_size == 50


def test_what_has_another_number_under_that_name_is_something_else() -> None:
    config, far = Plain(hidden=8), Plain(inside=Plain(inside=Plain(hidden=3)))

    assert _put({"config": config, "far": far}, "hidden") == ()

    assert config.hidden == 64 and far.inside.inside.hidden == 3  # type: ignore[attr-defined]


def test_says_which_names_nothing_reads() -> None:
    assert _put({"config": Plain(size=8)}, "batch") == ("batch",)


def test_a_loader_of_an_iterator_that_came_along_gives_batches_of_that_size() -> None:
    loader = DataLoader(TensorDataset(torch.zeros(100)), batch_size=8)
    with noted():
        iterator = iter(loader)
    shipment = ship(["it"], {"it": iterator})
    namespace: dict[str, Any] = {}
    receive(shipment.graph, shipment.memory, namespace)

    _put(namespace, "batch_size")

    assert len(next(namespace["it"])[0]) == 64
