"""What came from a checkpoint fills the notebook's own objects, and no others."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from jupyter_gpufit.surroundings.same_objects import put_back, still

NAME = "a_module_of_the_users"


class Slotted:
    __slots__ = ("__dict__", "rate")


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    made = ModuleType(NAME)
    made.__file__ = str(tmp_path / f"{NAME}.py")
    monkeypatch.setitem(sys.modules, NAME, made)
    return made


def put(names: dict[str, Any]) -> dict[str, Any]:
    """What the module is then told to have under these names."""
    put_back([((NAME, ()), ("names", (names, [])))], [(NAME, name) for name in names])
    return names


@pytest.mark.parametrize(
    "old,new",
    [
        ([1], lambda: [1, 2]),
        ({"a": 1}, lambda: {"b": 2}),
        ({1}, lambda: {2, 3}),
        (OrderedDict(a=1), lambda: OrderedDict(c=3, b=2)),
        (defaultdict(list, a=[1]), lambda: defaultdict(int, a=2)),
        (Namespace(a=1), lambda: Namespace(b=2)),
    ],
)
def test_the_notebooks_own_object_has_what_came(module: ModuleType, old: Any, new: Callable[[], Any]) -> None:
    vars(module)["held"] = old

    names = put({"held": new()})

    assert names["held"] is old and repr(old) == repr(new())


def test_what_more_refers_to_is_the_modules_and_the_old_one_says_the_same(module: ModuleType) -> None:
    old, new = Namespace(a=1), Namespace(a=2)
    vars(module)["held"], trainer = old, [new]

    names = put({"held": new})

    assert names["held"] is trainer[0] and old == Namespace(a=2)


def test_one_that_was_two_or_is_two_stays_as_it_was(module: ModuleType) -> None:
    one, other, shared = Namespace(a=1), Namespace(a=2), Namespace(a=3)
    vars(module).update(first=one, second=other, third=shared, fourth=shared)
    came = Namespace(a=5)

    names = put({"first": came, "second": came, "third": Namespace(a=6), "fourth": Namespace(a=7)})

    assert (one, other, shared) == (Namespace(a=1), Namespace(a=2), Namespace(a=3))
    assert names == {"first": came, "second": came, "third": Namespace(a=6), "fourth": Namespace(a=7)}


def test_another_kind_or_one_with_slots_is_what_came(module: ModuleType) -> None:
    vars(module).update(kind=[1], slotted=Slotted())

    names = put({"kind": {"a": 1}, "slotted": Slotted()})

    assert module.kind == [1] and names["kind"] == {"a": 1} and names["slotted"] is not module.slotted


def test_what_the_training_has_replaced_is_no_longer_what_the_checkpoint_had(module: ModuleType) -> None:
    vars(module).update(kept=[1], replaced=[2])
    before = {(NAME, "kept"): module.kept, (NAME, "replaced"): module.replaced}

    vars(module)["replaced"] = [3]

    assert still(before) == [(NAME, "kept")] and still({}) == []
