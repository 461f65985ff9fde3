from __future__ import annotations

from collections.abc import Callable

import pytest

from jupyter_gpufit.errors import BadOption
from jupyter_gpufit.estimate.asking.sweep import (
    MOST_TRIES,
    Sweep,
    largest,
    next_value,
    parse_sweep,
    uses_name,
    with_values,
)


def test_reads_a_name_and_its_values() -> None:
    assert parse_sweep("batch = 32, 8,16") == Sweep("batch", (8, 16, 32))


@pytest.mark.parametrize("text", ["batch", "batch=", "batch=0", "batch=-3", "2b=3", "b=1.5", "b=" + "1," * 20 + "1"])
def test_refuses_what_is_no_sweep(text: str) -> None:
    with pytest.raises(BadOption, match="--sweep"):
        parse_sweep(text)


def test_puts_values_where_the_cell_assigns_the_name() -> None:
    source = "ä = 'ü'; batch = 8  # why\nx: int = (\n  3 +\n  4)\ny = batch\nbatch //= 2\n"

    assert (
        with_values(source, {"batch": 64, "x": 5})
        == ("ä = 'ü'; batch = 64  # why\nx: int = (5)\n\n\ny = batch\nbatch //= 2\n".replace("(5)\n\n\n", "5\n\n\n"))
        or with_values(source, {"batch": 64, "x": 5}).splitlines()[4] == "y = batch"
    )
    assert with_values("use(batch)\n", {"batch": 64}) == "use(batch)\n"


def test_leaves_loops_and_functions_alone() -> None:
    source = "def f():\n    batch = 1\nfor batch in (1, 2): pass\n"

    assert with_values(source, {"batch": 9}) == source


def test_knows_whether_a_cell_uses_a_name() -> None:
    assert uses_name("f(batch)", "batch")
    assert not uses_name("f(x.batch, batch=3)", "batch")


@pytest.mark.parametrize(
    ("need", "room"),
    [
        (lambda batch: 700 + batch * 4, 36_000),
        (lambda batch: 20_000 + batch * 5_000, 36_000),
        (lambda batch: 100 + batch**2, 36_000),
        (lambda batch: 50_000, 36_000),
    ],
)
def test_finds_the_largest_value_in_few_tries(need: Callable[[int], int], room: int) -> None:
    known = [(8, need(8))]
    while (value := next_value(known, room)) is not None:
        known.append((value, need(value)))
    found = largest(known, room)

    assert len(known) <= MOST_TRIES
    assert found == 0 or need(found) <= room
    assert need(round(found * 1.03) + 1) > room


def test_gives_up_where_nothing_grows() -> None:
    known = [(8, 700)]
    while (value := next_value(known, 36_000)) is not None:
        known.append((value, 700))

    assert len(known) <= MOST_TRIES
