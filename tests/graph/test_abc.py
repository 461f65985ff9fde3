"""What Python's abc notes of a class travels as that of the class: objects keep it where they keep all of a class."""

from __future__ import annotations

import collections.abc
from abc import ABCMeta
from typing import Any

from jupyter_gpufit.graph.travel.ship import ship
from tests.work import calls_of

from .crossing import Worker, cross_here, notebook

BEFORE = """
import inspect
from collections.abc import Mapping
members = dict(inspect.getmembers(Mapping))
kept = {"_abc_impl": members["_abc_impl"]}
"""


def test_it_is_that_of_the_class() -> None:
    namespace: dict[str, Any] = notebook(BEFORE)

    cross_here(namespace, "from collections.abc import Mapping; same = kept['_abc_impl'] is Mapping._abc_impl", "kept")

    assert namespace["same"]


def test_the_classes_of_a_process_are_looked_through_once_for_all_notes() -> None:
    """There are some ten thousand, and what modules hold may have notes of hundreds: pyro's distributions."""
    notes = [vars(cls)["_abc_impl"] for cls in vars(collections.abc).values() if isinstance(cls, ABCMeta)]
    asked = calls_of(lambda: ship(["notes"], {"notes": notes}), named="__subclasses__")

    assert len(notes) > 10
    assert asked < 2 * len(_all_classes())


def _all_classes() -> set[type]:
    found, todo = set[type](), [object]
    while todo:
        below = set(type.__subclasses__(todo.pop())) - found
        found |= below
        todo += below
    return found


def test_what_the_class_has_of_python_is_the_classs_own() -> None:
    """Stable-Baselines3's wrappers keep all members of their class; and an object that keeps such one is sent whole."""
    namespace: dict[str, Any] = notebook(
        "import inspect\n"
        "class Log: ...\n"
        "class Wrapper:\n"
        "    def __init__(self):\n"
        "        self.members, self.made = dict(inspect.getmembers(type(self))), vars(dict)['fromkeys']\n"
        "class Trainer:\n"
        "    def __init__(self): self.wrapper, self.log = Wrapper(), Log()\n"
        "    def __getstate__(self): return {'wrapper': self.wrapper}\n"
        "    def __setstate__(self, state): self.__dict__.update(state, log=Log())\n"
        "trainer = Trainer()\nlog = trainer.log\n"
    )

    cross_here(
        namespace,
        "kept = trainer.wrapper.members['__weakref__'] is vars(Wrapper)['__weakref__'],"
        " trainer.wrapper.made is vars(dict)['fromkeys'], trainer.log is log",
        *("trainer", "log", "Wrapper"),
    )

    assert namespace["kept"] == (True, True, True)


def test_an_object_may_come_before_the_methods_of_its_class_are_there(worker: Worker) -> None:
    """What the class itself has leads to it."""
    namespace = notebook(
        """
import abc
class Base(abc.ABC):
    @property
    @abc.abstractmethod
    def conditions(self): ...
    @abc.abstractmethod
    def run(self): ...
class Problem(Base):
    conditions = {}
    def run(self): return 3
class Half(Base):
    conditions = {}
problem = Problem()
Problem.conditions["of"] = problem
"""
    )
    cell = "ran, other = problem.run(), Problem()\ntry: Half()\nexcept TypeError as error: why = str(error)"

    worker.cross(namespace, cell, "problem", "Problem", "Half")

    assert namespace["ran"] == 3 and type(namespace["other"]) is namespace["Problem"] and "run" in namespace["why"]
