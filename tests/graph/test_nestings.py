"""Any nesting of containers crosses, whatever refers to whatever."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .crossing import cross_here, notebook

Namespace = dict[str, Any]

atoms = st.one_of(st.integers(), st.text(max_size=3), st.none(), st.floats(allow_nan=False))
nested = st.recursive(
    atoms, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=2), inner, max_size=4))
)


@pytest.mark.slow(12)
@settings(max_examples=60, deadline=None)
@given(st.lists(nested, min_size=1, max_size=4), st.data())
def test_any_nesting_comes_back_with_the_same_shape_and_the_same_objects(
    values: list[Any], data: st.DataObject
) -> None:
    containers = [one for value in values for one in _containers(value)]
    for one in containers:  # tie some of them to each other, cycles included
        other = data.draw(st.sampled_from(containers))
        if isinstance(one, list):
            one.append(other)
    namespace: Namespace = {"values": values}
    before = [id(one) for one in _containers(values)]

    cross_here(
        namespace,
        "def walk(v, seen):\n    if id(v) in seen: return\n    seen.add(id(v))\n"
        "    if isinstance(v, list):\n        for x in list(v): walk(x, seen)\n        v.append('end')\n"
        "    elif isinstance(v, dict):\n        for x in list(v.values()): walk(x, seen)\n        v['end'] = 1\n"
        "walk(values, set())",
        "values",
    )

    after = _containers(namespace["values"])
    assert [id(one) for one in after] == before
    assert all(one[-1] == "end" if isinstance(one, list) else one["end"] == 1 for one in after)


def _containers(value: Any) -> list[Any]:
    found: dict[int, Any] = {}
    todo = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, list | dict) and id(one) not in found:
            found[id(one)] = one
            todo += one if isinstance(one, list) else one.values()
    return list(found.values())


SPACES = """
from collections import Counter, OrderedDict
class Space(Counter, OrderedDict):
    def __reduce__(self):
        return self.__class__, (OrderedDict(self),)
class Line(Space):
    def __init__(self, name):
        super().__init__({name: 1})
x = Line("x")
x.note = "the first"
plane = Space({"x": 1, "y": 2})
"""


def test_a_container_that_pickle_would_make_by_the_wrong_arguments_travels_as_what_it_holds() -> None:
    """torchphysics' spaces of one dimension."""
    namespace = notebook(SPACES)
    x, plane = namespace["x"], namespace["plane"]

    cross_here(namespace, "x['again'] = 3\nplane['z'] = 1\nmade = Line('made')")

    assert namespace["x"] is x and list(x.items()) == [("x", 1), ("again", 3)] and x.note == "the first"
    assert namespace["plane"] is plane or list(namespace["plane"].items())[-1] == ("z", 1)
    assert type(namespace["made"]) is type(x) and dict(namespace["made"]) == {"made": 1}
