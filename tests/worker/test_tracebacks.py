"""The traceback of a cell that was stopped."""

from __future__ import annotations

import ast
import json
import re
from types import TracebackType
from typing import Any

import pytest
from IPython.core import ultratb

from jupyter_gpufit.worker.tracebacks import quickly, stretches

CELL = """class Stops:
    def __str__(self): raise KeyboardInterrupt
def deep(n):
    return deep(n - 1) if n else dumps(Stops())
deep(20)
"""


def stopped(cell: str = CELL) -> tuple[type[BaseException], BaseException, TracebackType]:
    """An interrupt of a cell, below a library that the cell calls and that calls the cell."""
    import linecache

    linecache.cache["<cell>"] = len(cell), None, cell.splitlines(keepends=True), "<cell>"
    try:
        exec(compile(cell, "<cell>", "exec"), {"dumps": lambda value: json.dumps(value, default=str)})
    except KeyboardInterrupt as error:
        assert error.__traceback__ is not None and error.__traceback__.tb_next is not None
        return KeyboardInterrupt, error, error.__traceback__.tb_next
    raise AssertionError("it was not interrupted")


def shown(formatter: Any) -> list[str]:
    lines = "\n".join(formatter.structured_traceback(*stopped())).splitlines()
    return [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many lines each text has that is parsed."""
    lengths: list[int] = []
    parse = ast.parse

    def count(source: Any, *args: Any, **kwargs: Any) -> Any:
        lengths.append(len(source.splitlines()))
        return parse(source, *args, **kwargs)

    monkeypatch.setattr(ast, "parse", count)
    return lengths


@pytest.mark.slow(1)
def test_shows_the_cell_and_what_is_below_without_parsing_a_file(parsed: list[int]) -> None:
    formatter = ultratb.AutoFormattedTB(mode="Context", theme_name="neutral")
    with quickly(formatter):
        found = shown(formatter)
    assert max(parsed) == len(CELL.splitlines())
    text = "\n".join(found)
    for words in ("----> 5 deep(20)", "similar frames: deep at line 4", "json/encoder.py:", "return _iterencode(o, 0)"):
        assert words in text, text
    last = [line for line in found if line.startswith("---->")][-1]
    assert last.split() == "----> 2 def __str__(self): raise KeyboardInterrupt".split()
    assert found[-1] == "KeyboardInterrupt: "


@pytest.mark.slow(1)
def test_other_tracebacks_are_as_ever() -> None:
    formatter = ultratb.AutoFormattedTB(mode="Context", theme_name="neutral")
    before, huge = shown(formatter), ultratb.FAST_THRESHOLD
    with quickly(formatter):
        pass
    assert ultratb.FAST_THRESHOLD == huge and shown(formatter) == before


def test_a_traceback_is_cut_where_files_begin_and_end() -> None:
    names = []
    for stretch in stretches(stopped()[2]):
        link: TracebackType | None = stretch
        names.append(set[str]())
        while link is not None:
            names[-1].add(link.tb_frame.f_code.co_filename.rpartition("/")[2])
            link = link.tb_next
    assert names[0] == names[-1] == {"<cell>"}
    assert all("<cell>" not in between for between in names[1:-1])
