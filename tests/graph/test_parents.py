"""Objects of an earlier cell that started processes: the worker makes its own, and the notebook keeps what it has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jupyter_gpufit.errors import CannotTravel
from jupyter_gpufit.graph import ship
from jupyter_gpufit.graph.kinds import parents

from .crossing import cross_here, notebook

BEFORE = """
from tests.graph.vectors import Named, Vector
class Wrapped:
    def __init__(self, inner): self.inner = inner
envs = Wrapped(Named(lambda: 10, lambda: 20, name="two", scale=2))
first = envs.inner.step(1)
"""
CELL = """
seen, both = envs.inner.step(3), envs is wrapped
envs.inner.close()
"""


@pytest.fixture(autouse=True)
def watched() -> Iterator[None]:
    parents.watch()
    yield
    parents.forget()


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_is_made_anew_by_its_call_and_stays_the_notebooks_own() -> None:
    namespace = notebook(BEFORE, "wrapped = envs")
    inner = namespace["envs"].inner
    try:
        crossing = cross_here(namespace, CELL)

        assert (namespace["first"], namespace["seen"], namespace["both"]) == ([22, 42], [26, 46], True)
        assert namespace["envs"].inner is inner and inner.step(1) == [24, 44]
        (remark,) = crossing.shipment.remarks
        assert remark.startswith("envs has processes of its own (Named), which stay with the notebook")

        inner.learned[0] = pytest.importorskip("torch").ones(1)
        with pytest.raises(CannotTravel, match="children"):
            ship(["envs"], namespace)
    finally:
        inner.close()
