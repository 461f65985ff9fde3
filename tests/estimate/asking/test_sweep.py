from __future__ import annotations

from collections.abc import Callable

import pytest

from jupyter_gpufit.errors import BadOption
from jupyter_gpufit.estimate.asking.sweep import (
    FINE,
    Sweep,
    largest,
    next_value,
    of_all_data,
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
    assert with_values("batch = g(batch=8, x=[8]); f(batch=8)\n", {"batch": 64}) == "batch = 64; f(batch=8)\n"


def test_leaves_loops_and_functions_alone() -> None:
    source = "def f():\n    batch = 1\nfor batch in (1, 2): pass\n"

    assert with_values(source, {"batch": 9}) == source


def test_knows_whether_a_cell_uses_a_name() -> None:
    assert uses_name("f(batch)", "batch")
    assert uses_name("f(batch=3)", "batch")
    assert not uses_name("f(x.batch, batch=x.batch)", "batch")


@pytest.mark.parametrize(
    "written",
    [
        "TrainingArguments('out', {}=8, epochs=8)",
        "config = {{'{}': 8, 'size': 8}}",
        "config.{} = 8",
        "class CFG:\n    {}: int = 8\n    size = 8",
        "def loader():\n    return DataLoader(data, {}=8)",
    ],
)
def test_puts_values_where_the_cell_gives_the_name_a_number(written: str) -> None:
    source = written.format("batch")

    assert uses_name(source, "batch") and not uses_name(source, "bat")
    assert with_values(source, {"batch": 64}) == source.replace(
        source[source.index("batch") :], source[source.index("batch") :].replace("8", "64", 1), 1
    )


def test_what_else_has_that_name_keeps_its_number() -> None:
    with_variable = "size = 64\nx = T.Resize(size=224)(x)\nconfig = {'size': 64}\n"
    assert with_values(with_variable, {"size": 8}) == with_variable.replace("64", "8", 1)
    softmax = "y = torch.softmax(net(x), dim=1)\n"
    assert with_values(softmax, {"dim": 8}, before={"dim"}) == softmax
    assert not uses_name(softmax, "dim", is_variable=True)
    loaders = "train = DataLoader(a, batch_size=32)\nval = DataLoader(b, batch_size=1)\nrest = f(batch_size=32)\n"
    assert with_values(loaders, {"batch_size": 8}) == loaders.replace("32", "8")


def test_puts_values_where_the_cell_has_an_options_default() -> None:
    source = "parser.add_argument('-b', '--batch-size', type=int, default=8, metavar='N')\nf(default=8)\n"

    assert with_values(source, {"batch_size": 64}) == source.replace("8", "64", 1)
    assert with_values(source, {"batch": 64}) == source


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

    assert len(known) <= FINE.tries
    assert found == 0 or need(found) <= room
    assert need(round(found * 1.03) + 1) > room


def test_gives_up_where_nothing_grows() -> None:
    known = [(8, 700)]
    while (value := next_value(known, 36_000)) is not None:
        known.append((value, 700))

    assert len(known) <= FINE.tries


@pytest.mark.parametrize(
    ("batches", "all_data"),
    [
        ({8: 8}, 0),
        ({8: 8, 128: 100}, 100),
        ({8: 16, 128: 256, 2048: 300}, 150),  # of each loader two
        ({8: 4}, 0),  # the name is another's: a length of context
        ({8: 32, 128: 32}, 0),
        ({8: 8, 128: 8}, 0),
        ({8: 16, 64: 2}, 0),  # accumulation: what is left for each
        ({8: 8, 128: 128}, 0),
        ({8: 8, 128: 0}, 0),
    ],
)
def test_all_of_the_data_is_known_by_a_batch_that_grew(batches: dict[int, int], all_data: int) -> None:
    assert of_all_data(batches) == all_data
