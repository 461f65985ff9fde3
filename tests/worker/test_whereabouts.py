"""Where the user's code is, in words, for a wish that finds no safe point."""

from __future__ import annotations

import linecache
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jupyter_gpufit.worker.whereabouts import chain_of, where_is

CELL = """
def slow(wait):
    wait()

class Net:
    def forward(self, wait):
        return [slow(wait) for _ in range(1)]

def sort(wait):
    return sorted([1], key=lambda one: wait())

def close(wait):
    try:
        pass
    finally:
        for _ in range(2):
            slow(wait)

def load():
    import slow_to_import
"""


@contextmanager
def standing_in(call: Callable[[dict[str, Any], Callable[[], object]], object]) -> Iterator[int]:
    """A thread that runs code of a cell and stands in it."""
    there, go = threading.Event(), threading.Event()
    name = "<ipython-input-3-abc>"
    linecache.cache[name] = (len(CELL), None, CELL.splitlines(keepends=True), name)
    namespace: dict[str, Any] = {}
    exec(compile(CELL, name, "exec"), namespace)

    def wait() -> None:
        there.set()
        go.wait()

    thread = threading.Thread(target=call, args=(namespace, wait))
    thread.start()
    assert there.wait(60) and thread.ident is not None
    try:
        yield thread.ident
    finally:
        go.set()
        thread.join()
        del linecache.cache[name]


def test_names_the_functions_of_the_notebook_and_their_lines() -> None:
    with standing_in(lambda cell, wait: cell["Net"]().forward(wait)) as ident:
        words = where_is(ident)
    there = (
        "a list comprehension (line 7)" if sys.version_info < (3, 12) else "`forward` (line 7, in a list comprehension)"
    )
    assert f"`slow` (line 3), called from {there}" in words


def test_names_the_library_that_calls_back() -> None:
    with standing_in(lambda cell, wait: cell["sort"](wait)) as ident:
        words = where_is(ident)
    assert words.startswith("inside `") and "a lambda (line 10)" in words


def test_tells_of_a_block_without_safe_points() -> None:
    with standing_in(lambda cell, wait: cell["close"](wait)) as ident:
        words = where_is(ident)
    assert "`slow` (line 3), called from `close` (line 17, in a `finally` block)" in words


def test_names_the_line_that_imports_what_takes_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow_to_import.py").write_text("import builtins\nbuiltins.wait_here()\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def importing(cell: dict[str, Any], wait: Callable[[], object]) -> None:
        monkeypatch.setattr("builtins.wait_here", wait, raising=False)
        cell["load"]()

    with standing_in(importing) as ident:
        words = where_is(ident)
    assert words == "inside `wait` (threading.py), called from `load` (line 20)"


def test_a_thread_that_is_gone_is_nowhere() -> None:
    assert where_is(-1) == ""


def _chain(depth: int) -> str:
    text = "".join(f"def f{n}(): f{n + 1}()\n" for n in range(depth)) + "f0()\n"
    name, said = "<ipython-input-5-abc>", []
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), {f"f{depth}": lambda: said.append(chain_of(threading.get_ident()))})
    [chain] = said
    return chain


def test_a_chain_is_named_whole() -> None:
    chain = _chain(10)
    assert all(f"`f{n}`" in chain for n in range(10)) and "…" not in chain
    assert chain.endswith("called from line 11 of the cell")


def test_of_a_long_chain_its_ends_are_named() -> None:
    chain = _chain(20)
    assert chain.count("called from") == 13 and "…" in chain
    assert "`f19`" in chain and "`f0`" in chain and chain.endswith("called from line 21 of the cell")
