"""Generators that stand at a `yield`: told where, and made to stand there elsewhere."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from jupyter_gpufit.graph.kinds import generators as arriving
from jupyter_gpufit.graph.kinds.loader_iterators import noted
from jupyter_gpufit.graph.kinds.midway import go_on, not_asked, standing, standing_in
from jupyter_gpufit.program import Program, generators

from .crossing import cross_here, notebook

LOOPS = """
def pairs(n):
    for i in range(n):
        for j in [1, 2, 3]:
            if j == 2 and i % 2:
                continue
            yield i, j
            if i == 3:
                break
            last = j
        else:
            last = None
        yield "after", i, last
"""
TURNS = """
def turns():
    n = 0
    while n < 9:
        n += 1
        if n % 3 == 0:
            yield n
            continue
        elif n == 7:
            yield "seven"
            break
        yield -n
    else:
        n = 100
    yield n
"""
NESTED = """
def around(left):
    def inner(right):
        while True:
            for both in zip(left, right):
                yield both
            return
    return inner([1, 2, 3])
"""
METHOD = '''
class Steps:
    def __init__(self):
        self.n = 0
    def go(self, *more, step=2):
        """With a text of its own."""
        global counted
        counted = 1
        for self.n in range(9):
            yield self.n * step + len(more)
            counted += 1
        return counted
'''
IMPORTED = """
from __future__ import annotations
import math
def decorated(function):
    return function
class Sample:
    @decorated
    def __iter__(self) -> Iterator[int]:
        for one in map(math.factorial, range(4)):
            assert one < 99
            yield math.sqrt(one)
"""
ERRORS = """
def caught(items):
    for one in items:
        try:
            int(one)
        except ValueError:
            one = -1
        for _ in "ab":
            yield one
"""
ENDING = """
def repeated(items):
    while True:
        for each in items:
            for one in map(int, each):
                yield one
        if len(items) == 2:
            return
"""
CASES = {
    "behind an error": (ERRORS, "caught(['1', 'x', '2'])"),
    "loops that end": (ENDING, "repeated(['12', '3'])"),
    "loops": (LOOPS, "pairs(5)"),
    "turns": (TURNS, "turns()"),
    "of a module that is imported above": (IMPORTED, "iter(Sample())"),
    "a nested one": (NESTED, "around('xyz')"),
    "a method": (METHOD, "Steps().go(1, 2, step=3)"),
}
_cells = count()


def cell(text: str, namespace: dict[str, Any] | None = None) -> dict[str, Any]:
    """A namespace in which it was run, with its text where IPython keeps it."""
    filename = f"<midway {next(_cells)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    namespace = {"__name__": "__main__"} if namespace is None else namespace
    exec(compile(text, filename, "exec"), namespace)
    return namespace


def begun(make: Callable[[], Iterator[Any]], items: int) -> tuple[Iterator[Any], list[Any]]:
    one = make()
    return one, [next(one) for _ in range(items)]


@pytest.mark.parametrize("case", CASES)
def test_it_goes_on_from_any_yield_however_often_it_is_made_again(case: str) -> None:
    text, made = CASES[case]
    namespace = cell(text)

    def make() -> Iterator[Any]:
        return eval(made, namespace)  # type: ignore[no-any-return]

    whole = list(make())
    for items in range(1, len(whole) + 1):
        one, got = begun(make, items)
        while True:
            at = standing(one)
            assert at is not None
            one = go_on(at)
            assert not_asked(one) == at
            try:
                got.append(next(one))
            except StopIteration:
                break
        assert got == whole


@pytest.mark.parametrize("case", CASES)
def test_a_program_takes_it_up_and_tells_where_it_has_come_to(case: str) -> None:
    text, made = CASES[case]
    namespace = cell(text)
    whole = list(eval(made, namespace))
    stood = [begun(lambda: eval(made, namespace), items) for items in range(1, len(whole))]
    found = [standing(one) for one, _ in stood]
    program = Program(namespace)
    program.learn(next(reversed(linecache.cache)), text)
    program.cell(ast.parse("for one in ():\n    pass"), "<cell>")  # from now on its functions are those of the program
    rewritten = generators.Rewritten(program)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(arriving, "program", rewritten)
        for (_, got), at in zip(stood, found, strict=True):
            assert at is not None
            one = arriving.make_standing(*arriving.as_parts(at))
            got.append(next(one))
            assert program.library.is_ours(inner := arriving.inner_of(one))
            if len(got) < len(whole):
                line, values, its = rewritten.where(inner) or pytest.fail("it is not told")
                again = standing_in(at.function, line, values, its)
                assert again is not None and [*got, *go_on(again)] == whole
    program.leave()


@pytest.mark.parametrize(
    "body",
    [
        "with open('/dev/null'):\n        yield 1",
        "try:\n        yield 1\n    finally:\n        pass",
        "got = yield 1",
        "yield 1; yield 2",
        "yield from [1, 2]",
        "n = 1\n    later = lambda: n\n    yield 1",
    ],
)
def test_who_stands_where_more_would_have_to_be_known_is_not_told(body: str) -> None:
    one = cell(f"def one():\n    {body}\none = one()")["one"]
    next(one)

    assert standing(one) is None


def test_one_in_use_goes_on_in_a_cell_and_after_it() -> None:
    namespace = cell(
        "def count(n):\n    while True:\n        n += 1\n        yield n\nnumbers = count(0); next(numbers)"
    )

    cross_here(namespace, "first = next(numbers)", "numbers")
    cross_here(namespace, "second = next(numbers)", "numbers")

    assert (namespace["first"], namespace["second"], next(namespace["numbers"])) == (2, 3, 4)


def test_one_that_its_object_holds_goes_on_there() -> None:
    text = "class Bag:\n    def go(self):\n        for one in 'abc':\n            yield one, self\n"
    namespace = cell(text + "bag = Bag(); bag.items = bag.go(); next(bag.items)")

    cross_here(namespace, "got, whose = next(bag.items)", "bag")

    assert namespace["got"] == "b" and namespace["whose"] is namespace["bag"]
    assert next(namespace["bag"].items) == ("c", namespace["bag"])


def test_one_that_is_sent_before_its_object() -> None:
    text = "class Bag:\n    def go(self):\n        for one in 'abc':\n            yield one, self\n"
    namespace = cell(text + "bag = Bag(); items = bag.items = bag.go(); next(items)")

    cross_here(namespace, "got, whose = next(items)", "items", "bag")

    assert namespace["got"] == "b" and namespace["whose"] is namespace["bag"]


CYCLE = """
def cycle(loader):
    while True:
        for one in loader:
            yield one
"""


def test_one_over_a_loader_goes_on_after_the_cell_in_its_order() -> None:
    text = CYCLE + "import torch\nfrom torch.utils.data import DataLoader\ntorch.manual_seed(0)\n"
    made = "batches = cycle(DataLoader(range(6), 2, shuffle=True)); next(batches)\n"
    taken = [f"got{number} = [next(batches).tolist() for _ in range(4)]" for number in range(3)]
    plain = cell(text + made + "\n".join(taken))
    with noted():
        namespace = cell(text + made)

    for one in taken:
        cross_here(namespace, one, "batches")

    assert [namespace[f"got{number}"] for number in range(3)] == [plain[f"got{number}"] for number in range(3)]


def test_one_whose_loop_cannot_leave_the_worker_stays_whole() -> None:
    namespace = cell(
        CYCLE + "from torch.utils.data import DataLoader\nbatches = cycle(DataLoader(range(4), num_workers=1))"
    )
    own = namespace["batches"]

    returned = cross_here(namespace, "next(batches)", "batches").returned

    assert namespace["batches"] is own and [left.name for left in returned.left_behind] == ["batches"]


def test_it_is_not_told_of_a_text_that_was_edited_since() -> None:
    namespace = cell("def one():\n    yield 1\n    yield 2\nit = one(); next(it)")
    filename = namespace["one"].__code__.co_filename
    edited = "def one():\n    yield 1 if later else 0\n    yield 2\n"
    linecache.cache[filename] = (len(edited), None, edited.splitlines(keepends=True), filename)

    assert standing(namespace["it"]) is None


def test_it_is_refused_where_nobody_has_its_text() -> None:
    one = notebook("def one():\n    yield 1\none = one(); next(one)")["one"]

    assert standing(one) is None
