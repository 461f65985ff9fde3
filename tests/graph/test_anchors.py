"""What every process has by itself is named, and not sent: also where that is something that has a number already."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from jupyter_gpufit.graph import receive, ship
from jupyter_gpufit.graph.modules import Here
from jupyter_gpufit.graph.put_back import Lost

from .crossing import notebook


class Around:
    """A library's shell, which leads to the notebook's own namespace."""

    name = "_around"

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self.lost: list[Lost] = []

    def standing(self, ids: Container[int]) -> list[Here]:
        return [(self._namespace, dict, ())] if id(self._namespace) in ids else []

    def fill(self, pickler: Any) -> None:
        """Nothing goes along."""

    def leave(self) -> None:
        """There is nothing to leave."""


def test_the_notebooks_namespace_keeps_its_number() -> None:
    namespace = notebook("class Point: pass\nx, y = Point(), {'a': [1]}; x.y = y; y['x'] = x")
    namespace["_around"] = {}
    there: dict[str, Any] = {"__name__": "__main__"}

    shipment = ship(["x", "y", "_around"], namespace, Around(namespace))
    receive(shipment.graph, shipment.memory, there)

    assert there["x"].y is there["y"] and there["y"]["x"] is there["x"] and there["y"]["a"] == [1]
