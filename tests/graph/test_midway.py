"""Generators that an earlier cell has begun, in the cell, and back in the notebook."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from typing import Any

import pytest

from jupyter_gpufit.errors import CannotTravel
from jupyter_gpufit.surroundings import midway

from .crossing import Worker


@pytest.fixture
def cell(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Runs text in a namespace as a notebook's cell, whose text is known."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    midway.begin_alone(lambda: namespace)
    names: list[str] = []

    def run(text: str) -> dict[str, Any]:
        name = f"<cell {request.node.name} {len(names)}>"
        names.append(name)
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        exec(compile(text, name, "exec"), namespace)
        return namespace

    yield run
    for name in names:
        del linecache.cache[name]


CYCLE = """
def cycle(loader, log):
    turn = 0
    while True:
        for x in loader:
            log.append(x)
            yield turn, x
        turn += 1
loader, log = [1, 2, 3], []
batches = cycle(loader, log)
first = [next(batches) for _ in range(4)]
"""


def test_goes_on_in_the_cell_and_again_in_the_notebook(cell: Any, worker: Worker) -> None:
    namespace = cell(CYCLE)
    worker.cross(namespace, "second = [next(batches) for _ in range(3)]", "batches", "log")
    assert namespace["second"] == [(1, 2), (1, 3), (2, 1)]
    assert [next(namespace["batches"]) for _ in range(3)] == [(2, 2), (2, 3), (3, 1)]
    assert namespace["log"] == [1, 2, 3, 1, 2, 3, 1, 2, 3, 1]  # the notebook's own list is what it writes
    worker.cross(namespace, "third = next(batches)", "batches", "log")
    assert namespace["third"] == (3, 2) and next(namespace["batches"]) == (3, 3)


WITH_ALL = """
import io
seen = []
class Here:
    def __enter__(self):
        seen.append("enter")
        return self
    def __exit__(self, *error):
        seen.append("exit")
def inner(n):
    for i in range(n):
        got = yield i
        if got:
            seen.append(got)
    return "done"
class Source:
    rate = 3
    def items(self, n):
        offset = 10
        def moved(i):
            nonlocal offset
            offset += self.rate
            return i + offset
        try:
            with Here() as here:
                turns = 0
                while turns < 2:
                    turns += 1
                    for k, (a, b) in enumerate(zip("abc", range(n))):
                        if b % 2:
                            yield a, moved(b)
                        else:
                            yield k
                done = yield from inner(3)
                seen.append(done)
        except ValueError as error:
            yield str(error)
        finally:
            seen.append("finally")
plain, ours = Source().items(3), Source().items(3)
"""


@pytest.mark.slow(1)
@pytest.mark.parametrize("before", range(1, 8))
@pytest.mark.parametrize("there", [0, 1, 2])
def test_goes_on_wherever_it_was_suspended(cell: Any, worker: Worker, before: int, there: int) -> None:
    namespace = cell(WITH_ALL)
    for name in ("plain", "ours"):
        namespace["seen"].clear()
        for _ in range(before):
            next(namespace[name])
    expected = [next(namespace["plain"]) for _ in range(there)] + list(namespace["plain"])
    seen = namespace["seen"][1:]
    namespace["seen"][:] = []
    worker.cross(namespace, f"got = [next(ours) for _ in range({there})]", "ours", "seen")
    assert [*namespace["got"], *namespace["ours"]] == expected
    assert namespace["seen"] == seen


def test_is_sent_to_thrown_into_and_closed(cell: Any, worker: Worker) -> None:
    text = WITH_ALL + "sent, thrown, closed = inner(5), Source().items(3), Source().items(3)\n"
    namespace = cell(text + "for one in (sent, thrown, closed): next(one)\nseen.clear()\n")
    made = 'got = sent.send("hello"), thrown.throw(ValueError("no")), closed.close()'
    worker.cross(namespace, made, "sent", "thrown", "closed", "seen")
    assert namespace["got"] == (1, "no", None)
    assert namespace["seen"] == ["hello", "exit", "exit", "finally"]
    assert namespace["sent"].send("again") == 2 and namespace["seen"][-1] == "again"
    assert list(namespace["thrown"]) == [] and namespace["seen"][-1] == "finally"
    assert list(namespace["closed"]) == []


def test_holds_what_others_hold_and_itself(cell: Any, worker: Worker) -> None:
    namespace = cell("""
def count(box):
    step = 1
    def faster():
        nonlocal step
        step += 1
    box.append(faster)
    n = 0
    while True:
        n += step
        yield n
box = []
counting = count(box)
next(counting)
box.append(counting)
pair = [counting, box]
""")
    worker.cross(namespace, "box[0](); got = next(box[1])", "box", "pair")
    assert namespace["got"] == 3
    counting = namespace["box"][1]
    assert counting is namespace["pair"][0]
    namespace["box"][0]()
    assert next(counting) == 6


def test_one_that_came_to_hold_itself_in_the_cell(cell: Any, worker: Worker) -> None:
    text = (
        "def f(n):\n    held = []\n    while True:\n        got = yield n\n        n += 1\n        held = [held, got]\n"
    )
    namespace = cell(text + "g = f(1)\nnext(g)\n")

    worker.cross(namespace, "got = g.send(g)", "g")

    assert namespace["got"] == 2 and next(namespace["g"]) == 3


def test_a_generator_expression_goes_on(cell: Any, worker: Worker) -> None:
    namespace = cell("squares = (n * n for n in range(9) if n % 2)\nnext(squares)\n")
    worker.cross(namespace, "got = next(squares)", "squares")
    assert namespace["got"] == 9 and list(namespace["squares"]) == [25, 49]


def test_one_that_the_cell_has_begun_goes_on_in_the_notebook(cell: Any, worker: Worker) -> None:
    namespace = cell(CYCLE)
    namespace["log"].clear()
    worker.cross(namespace, "mine = cycle(loader, log); got = next(mine)", "cycle", "loader", "log")
    assert namespace["got"] == (0, 1) and next(namespace["mine"]) == (0, 2) and namespace["log"] == [1, 2]


def test_one_that_holds_what_cannot_leave_the_worker_stays_whole(cell: Any, worker: Worker) -> None:
    namespace = cell("""
import threading
def f():
    yield 1
    lock = threading.Lock()
    lock.acquire()
    yield 2
g = f()
next(g)
""")
    own = namespace["g"]

    returned = worker.cross(namespace, "got = next(g)", "g").returned

    assert namespace["g"] is own and next(own) == namespace["got"] == 2
    assert "g" in [left.name for left in returned.left_behind]


def test_of_a_text_that_was_edited_since_it_is_refused(cell: Any, worker: Worker) -> None:
    namespace = cell("def one():\n    yield 1\n    yield 2\nit = one(); next(it)\n")
    filename, edited = namespace["one"].__code__.co_filename, "def one():\n    yield 1 if later else 0\n    yield 2\n"
    linecache.cache[filename] = (len(edited), None, edited.splitlines(keepends=True), filename)

    with pytest.raises(CannotTravel, match="a generator in use"):
        worker.cross(namespace, "next(it)", "it")


def test_in_the_midst_of_an_expression_it_is_refused(cell: Any, worker: Worker) -> None:
    namespace = cell("def f():\n    print(1, (yield 2))\ng = f()\nnext(g)\n")
    with pytest.raises(CannotTravel, match="a generator in use"):
        worker.cross(namespace, "next(g)", "g")
