from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

import pytest

from jupyter_gpufit.snapshot.orders import by_value, kept_by_pickle, order_of

HISTORIES: dict[str, Callable[[list[Any]], set[Any]]] = {
    "from a list": set,
    "from a set": lambda words: set(frozenset(words)),
    "larger once": lambda words: set(words + [f"{n}" for n in range(len(words))]) - {f"{n}" for n in range(len(words))},
    "shrunk one by one": lambda words: _shrunk(words),
    "a union": lambda words: set(words[::2]) | set(words[1::2]),
}


def _shrunk(words: list[Any]) -> set[Any]:
    made = {f"{n}" for n in range(3 * len(words))}
    for n, word in enumerate(words):
        made.add(word)
        made -= {f"{n}", f"{n + len(words)}"}
    return made


@pytest.mark.parametrize("size", [2, 5, 19, 31, 77, 400])
@pytest.mark.parametrize("history", HISTORIES)
def test_a_set_can_be_made_again_in_its_order(history: str, size: int) -> None:
    chance = random.Random(size)
    for _ in range(10):
        one = HISTORIES[history]([f"word {chance.random()}" for _ in range(size)])

        order = order_of(one)

        assert order is not None
        again: set[Any] = {"something"}
        order.fill(again)
        assert list(again) == list(one) and again == one


@pytest.mark.parametrize("seed", range(40))
def test_whatever_was_put_in_and_removed(seed: int) -> None:
    chance = random.Random(seed)
    one: set[Any] = set()
    for _ in range(200):
        one.add(chance.getrandbits(60))
        if len(one) > 1 + seed:
            one.discard(chance.choice(list(one)))
        order = order_of(one)
        assert order is not None
        again: set[Any] = set()
        order.fill(again)
        assert list(again) == list(one) and again == one


def test_numbers_keep_their_order_by_themselves() -> None:
    assert kept_by_pickle(set(range(1000)))


def test_only_what_is_hashed_by_value_has_an_order_to_keep() -> None:
    assert by_value({"a", "b"}) and by_value({(1, "a"), (2, b"b")}) and by_value({PurePosixPath("a"), 3})
    assert not by_value({object(), object()}) and not by_value({"a"}) and not by_value({(object(), 1), 2})
