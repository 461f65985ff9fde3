"""What a graph says before anything of it is unpickled, and under which names our own functions stand in it."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from jupyter_gpufit.graph import ship
from jupyter_gpufit.graph.wire import NAMES, OtherFormat, made_by, reference, seal, split
from tests.graph.names import unnamed


class Trap:
    """Says so when it is unpickled."""

    def __reduce__(self) -> Any:
        return pytest.fail, ("it was unpickled",)


def test_a_graph_is_what_was_sealed() -> None:
    assert split(seal({"names": ["a"]}, b"the stream", version=3), version=3) == ({"names": ["a"]}, b"the stream")


@pytest.mark.parametrize(
    "graph",
    [
        seal({"a": Trap()}, b"", version=2),
        pickle.dumps({"a": Trap()}),
        b'{"format": 99, "version": 3}\n' + pickle.dumps(Trap()),
        b"[]\n" + pickle.dumps(Trap()),
        b"",
    ],
    ids=["another version", "from before there were versions", "a later format", "no record", "nothing"],
)
def test_another_format_is_refused_before_anything_is_unpickled(graph: bytes) -> None:
    with pytest.raises(OtherFormat):
        split(graph, version=3)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_name_stands_for_something_that_has_this_name(name: str) -> None:
    thing = made_by(name)

    assert reference(thing) == (made_by, (name,))


def test_what_is_no_name_of_ours_is_left_to_pickle() -> None:
    assert reference(len) is None and reference(split) is None


def test_a_function_of_the_notebook_names_no_module_of_ours() -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec("def double(x, kept=[1]):\n    return 2 * x\nboth = [double, {double}]", namespace)

    assert unnamed(ship(["both", "double"], namespace).graph) == set()
    assert unnamed(pickle.dumps(split, 5)) == set()
    assert unnamed(pickle.dumps(ship, 5)) == {"jupyter_gpufit.graph.travel.ship: ship"}
