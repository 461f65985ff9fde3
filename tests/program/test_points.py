"""A cell that is saved at a safe point and goes on elsewhere ends as it would have ended."""

from __future__ import annotations

import pytest

from .crossing import at_points, in_a_chain, plain, rewritten
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
