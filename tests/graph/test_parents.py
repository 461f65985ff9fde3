"""Objects of an earlier cell that started processes: the worker makes its own, and the notebook keeps what it has."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator

import pytest

from jupyter_gpufit.errors import CannotArrive, CannotTravel
from jupyter_gpufit.graph import ship
from jupyter_gpufit.graph.kinds import parents

from .crossing import cross_here, notebook

BEFORE = """
from jupyter_gpufit.graph.kinds import parents
from tests.graph.vectors import Measured, Named
measured = Measured()
measured.found.append("later")
class Wrapped:
    def __init__(self, inner): self.inner = inner
twenty = 20
envs = Wrapped(Named(lambda: 10, lambda: twenty, name="two", scale=2))
first = envs.inner.step(1)
"""
CELL = """
parents.begin()  # as a worker does
envs.inner.at, envs.inner.scale = 1, 3
seen, both, found = envs.inner.step(3), envs is wrapped, measured.found
"""


@pytest.fixture(autouse=True)
def watched() -> Iterator[None]:
    parents.watch()
    yield
    parents.forget()
    for child in multiprocessing.active_children():
        child.kill()
        child.join()


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_is_made_anew_by_its_call_and_the_notebooks_own_becomes_what_that_came_to() -> None:
    namespace = notebook(BEFORE, "wrapped = envs")
    inner = namespace["envs"].inner
    try:
        crossing = cross_here(namespace, CELL)

        assert (namespace["first"], namespace["seen"], namespace["both"]) == ([22, 42], [42, 72], True)
        assert not crossing.returned.left_behind and not crossing.returned.remarks and inner.at == 1
        assert namespace["found"] == [8, "later"]
        assert namespace["envs"].inner is inner and inner.step(1) == [45, 75]
        (remark,) = crossing.shipment.remarks
        assert remark.startswith("envs has processes of its own (Named), which stay with the notebook")

        inner.learned[0] = pytest.importorskip("torch").ones(1)
        with pytest.raises(CannotTravel, match="children"):
            ship(["envs"], namespace)
    finally:
        inner.close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_one_that_the_training_closed_is_closed_in_the_notebook_and_what_its_processes_do_is_said() -> None:
    namespace = notebook(BEFORE)
    inner = namespace["envs"].inner
    try:
        (remark,) = cross_here(
            namespace, ANEW + "envs.inner.close(); envs.inner.closed = True", "envs"
        ).returned.remarks

        assert inner.closed and inner.children[0].is_alive()
        assert remark.startswith("A Named came back; its processes have ended in the training.")
    finally:
        inner.close()


ANEW = "from jupyter_gpufit.graph.kinds import parents; parents.begin(); "
STARTS = """
import multiprocessing, time
class Starts:
    def __init__(self, *given):
        self.given = given
        self.process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,), daemon=True)
        self.process.start()
"""


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_one_that_knows_its_own_way_takes_it() -> None:
    stored = "class Stored(Starts):\n  def __getstate__(self): return self.count\n"
    stored += "  def __setstate__(self, count): self.count, self.process = count, None\n"
    namespace = notebook(STARTS + stored + "s = Stored(); s.count = 41")

    cross_here(namespace, ANEW + "seen = s.count", "s")

    assert namespace["seen"] == 41


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_tensors_are_found_however_deep() -> None:
    torch = pytest.importorskip("torch")
    namespace = notebook(STARTS + "from collections import deque\nclass Agent: pass\ns = Starts(); s.agent = Agent()")
    namespace["s"].agent.memory = namespace["deque"]([{"w": (torch.ones(1),)}])

    with pytest.raises(CannotTravel, match="children"):
        ship(["s"], namespace)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.parametrize(
    "made",
    [
        "class Owner:\n  def __init__(self): self.inner = Starts(self)\ns = Owner().inner",
        "class Swaps(Starts):\n  def __init__(self, a, b):\n    a, b = b, a; super().__init__(a, b)\ns = Swaps(3, 4)",
        "class Keeps(Starts):\n  def __init__(self, n):\n    n += 1; super().__init__(lambda: n)\ns = Keeps(3)",
        "class Twice(Starts):\n  def __init__(self, n):\n    n = n * 2; super().__init__(n)\ns = Twice(3)",
    ],
    ids=[
        "by its owner, with the owner",
        "swapped",
        "kept by a function",
        "with something else than it was called with",
    ],
)
def test_of_which_the_call_is_not_known_or_not_to_be_kept_is_not_made_anew(made: str) -> None:
    namespace = notebook(STARTS + made)

    with pytest.raises(CannotTravel, match="children"):
        ship(["s"], namespace)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_what_cannot_be_made_anew_is_told_as_the_users_error() -> None:
    once = "class Once(Starts):\n  def __init__(self):\n    super().__init__()\n    open(path).close()\n"
    namespace = notebook("path = '/dev/null'\n" + STARTS + once + "s = Once(); path = '/nowhere'")

    with pytest.raises(CannotArrive, match=r"A Once could not be opened.*FileNotFoundError"):
        cross_here(namespace, ANEW + "s", "s")
