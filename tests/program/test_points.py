"""A cell that is saved at a safe point and goes on elsewhere ends as it would have ended."""

from __future__ import annotations

import weakref

import pytest

from .crossing import World, at_points, in_a_chain, plain, rewritten
from .probes import PROBES


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBES)
def test_a_chain_of_crossings_of(name: str) -> None:
    assert in_a_chain(PROBES[name], gap=max(2, rewritten(PROBES[name]).points // 4)) > 0


@pytest.mark.soak  # the chain, too, ends as the cell would have after each of its crossings
@pytest.mark.parametrize("name", PROBES)
def test_every_safe_point_of(name: str) -> None:
    assert at_points(PROBES[name]) > 0
    assert in_a_chain(PROBES[name]) > 0


@pytest.mark.parametrize("name", PROBES)
def test_rewritten_it_does_the_same(name: str) -> None:
    once, other = plain(PROBES[name]), rewritten(PROBES[name])

    assert (other.log, other.shown, other.error, other.notes) == (once.log, once.shown, once.error, [])
    assert other.points > 0


@pytest.mark.slow
def test_functions_of_an_earlier_cell_can_be_left_too() -> None:
    earlier = """
from __future__ import annotations

def batches(n: int):
    for i in range(n):
        yield i

def train(n):
    total: Unknown = 0
    def add(x: AlsoUnknown) -> None:
        nonlocal total
        total += x
    for b in batches(n):
        add(b)
    return total
"""
    text = """
for e in range(3):
    say(train(e + 1))
[batches(2).__next__(), train.__name__]
"""
    assert at_points(text, earlier) == 13


@pytest.mark.slow
def test_the_flags_of_another_cell_hold_for_one_that_does_not_name_them() -> None:
    # IPython compiles every cell after `from __future__ import annotations` with it.
    code = compile(
        "def f(n: Unknown):\n  for i in range(n): say(i)", "<cell 3>", "exec", flags=1 << 24, dont_inherit=True
    )
    namespace: dict[str, object] = {}
    exec(code, namespace)

    assert (
        at_points(
            "for k in range(2): f(k + 1)",
            "from __future__ import annotations\n" + "def f(n: Unknown):\n  for i in range(n): say(i)",
        )
        == 8
    )


# Where a loop of three items may stand: 4 points, 3 items and the end.
LOOPS = {
    "the constructor of a class": "class A:\n def __init__(self):\n  LOOP\na = A()",
    "a constructor by super()": (
        "class A:\n def __init__(self):\n  LOOP\nclass B(A):\n def __init__(self):\n  super().__init__()\nb = B()"
    ),
    "__call__": "class A:\n def __call__(self):\n  LOOP\nA()()",
    "a property": "class A:\n @property\n def x(self):\n  LOOP\nA().x",
    "a property of a property": (
        "class A:\n @property\n def x(self):\n  LOOP\n @property\n def y(self):\n  return self.run()\n"
        " def run(self):\n  return self.x\nA().y"
    ),
    "a cached property": (
        "import functools\nclass A:\n @functools.cached_property\n def x(self):\n  LOOP\na = A()\na.x, a.x"
    ),
    "finally, after no error": "def f():\n try:\n  pass\n finally:\n  LOOP\nf()",
    "finally, after an error": (
        "def f():\n try:\n  1 / 0\n finally:\n  LOOP\ntry:\n f()\nexcept ZeroDivisionError:\n pass"
    ),
    "finally of the cell": "try:\n pass\nfinally:\n LOOP",
    "an error's handler": "try:\n 1 / 0\nexcept ZeroDivisionError:\n LOOP",
    "a decorated function": (
        "import functools\ndef twice(f):\n @functools.wraps(f)\n def g():\n  return f()\n return g\n"
        "@twice\ndef f():\n LOOP\nf()"
    ),
    "a lambda's": "def f(n):\n LOOP\ng = lambda n: f(n)\ng(3)",
    "a partial's": "import functools\ndef f(n):\n LOOP\nfunctools.partial(f, 3)()",
    "a static method": "class A:\n @staticmethod\n def f():\n  LOOP\nA.f()",
    "a method of a class": "class A:\n @classmethod\n def f(cls):\n  LOOP\nA.f()",
    "a closure": "def f():\n def g():\n  LOOP\n return g()\nf()",
}


@pytest.mark.parametrize("where", LOOPS)
def test_a_loop_is_left_in(where: str) -> None:
    assert at_points(LOOPS[where].replace("LOOP", "for i in range(3): say(i)")) == 4


def test_what_list_of_a_map_calls_is_left_at_each_item() -> None:
    assert at_points("def f(n):\n for i in range(3): say(i)\nlist(map(f, [0]))") == 6


def test_what_an_iteration_had_goes_with_it_after_a_save_too() -> None:
    text = """
class Batch: pass
def items(n):
    for i in range(n):
        item = Batch()
        made(item)
        yield item
def train():
    for item in items(6):
        batch = Batch()
        made(batch)
        say(alive())
train()
"""
    world = watching()

    def save() -> None:
        world.points += 1
        if world.points in (5, 6):  # in the loop of each of the two
            world.program.records()

    ran = world.run(text, save)

    assert (ran.error, ran.log) == ([], [2] * 6)


def watching() -> World:
    """Where a cell may note what it has `made`, and ask how much of that is `alive`."""
    world, made = World(), list[weakref.ref[object]]()
    world.namespace["made"] = lambda one: made.append(weakref.ref(one))
    world.namespace["alive"] = lambda: sum(one() is not None for one in made)
    return world


HANDLED = {
    "caught": "try:\n        fits(batch(k))\n    except ValueError:\n",
    "suppressed": "with suppress(ValueError):\n        fits(batch(k))\n    if True:\n",
}


@pytest.mark.parametrize("how", HANDLED)
def test_what_a_call_that_failed_was_given_is_gone_where_the_error_is_handled(how: str) -> None:
    """So that there is room for a smaller batch."""
    ran = watching().run(f"""
from contextlib import suppress
class Batch: pass
def batch(k):
    for i in range(k):
        one = Batch()
    made(one)
    return one
def fits(one):
    del one
    raise ValueError
def train(k):
    {HANDLED[how]}        say(alive())
train(2)
""")

    assert (ran.error, ran.log) == ([], [0])
