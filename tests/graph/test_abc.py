"""What Python's abc notes of a class travels as that of the class: objects keep it where they keep all of a class."""

from __future__ import annotations

from typing import Any

from .crossing import cross_here, notebook

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
