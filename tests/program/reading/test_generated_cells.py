"""What a cell is said to read, bind and change, against what generated cells really do."""

from __future__ import annotations

import ast
import sys
import textwrap
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_gpufit.errors import NameNotDefined
from jupyter_gpufit.program.reading.cell import CellNames, check_names, names_of


def test_refuses_the_name_that_comes_first() -> None:
    with pytest.raises(NameNotDefined) as caught:
        check_names(names_of("f(\n zz,\n yy)\naa"), {"f"})

    assert (caught.value.name, caught.value.line) == ("zz", 2)


@pytest.mark.parametrize(
    "source", ["print(x)", "display(x)", "x if x else y", "_12 + __file__", "def f(): y", "len", "Out[1]"]
)
def test_lets_defined_and_doubtful_names_pass(source: str) -> None:
    check_names(names_of(source), {"x"})


class Anything:
    """Stands any operation, so that a generated cell fails by a name or not at all."""

    def __getattr__(self, name: str) -> Anything:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __call__(self, *args: object, **kwargs: object) -> Anything:
        return Anything()

    def __iter__(self) -> Any:
        return iter((Anything(), Anything()))

    def __add__(self, other: object) -> Anything:
        return self

    __iadd__ = __radd__ = __getitem__ = __add__

    def __setitem__(self, key: object, value: object) -> None: ...
    def __delitem__(self, key: object) -> None: ...
    def __enter__(self) -> Anything:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> bool:
        return kind is not None and issubclass(kind, NameError)  # it swallows, as contextlib.suppress does


class Recorder(dict[str, Any]):
    """A namespace that knows what was asked of it; the interpreter takes the slow way through a subclass of dict."""

    def __init__(self, old: dict[str, Any]) -> None:
        super().__init__(old)
        self.old = old
        self.asked: set[str] = set()
        self.asked_for_old: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.asked.add(name)
        value = super().__getitem__(name)
        if value is self.old.get(name, self):
            self.asked_for_old.add(name)
        return value


NAMES = st.sampled_from("abcd")
EXPRESSIONS = st.recursive(
    NAMES | st.sampled_from(["a.x", "b[0]"]),
    lambda inner: st.one_of(
        st.builds("({} + {})".format, inner, inner),
        st.builds("({} and {})".format, inner, inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("({} := {})".format, NAMES, inner),
        st.builds("[{} for {} in {}]".format, inner, NAMES, inner),
        st.builds("[{} for {} in {} for {} in {}]".format, inner, NAMES, inner, NAMES, inner),
        st.builds("(lambda {}={}: {})".format, NAMES, inner, inner),
        st.builds("(lambda: {})()".format, inner),
        st.builds("f'{{{}}}'".format, inner),
        st.builds("{}.m({})".format, NAMES, inner),
    ),
    max_leaves=4,
)
SIMPLE = st.one_of(
    EXPRESSIONS,
    st.builds("{} = {}".format, NAMES, EXPRESSIONS),
    st.builds("{}, {} = a, {}".format, NAMES, NAMES, EXPRESSIONS),
    st.builds("{} += {}".format, NAMES, NAMES),
    st.builds("{}.x = {}".format, NAMES, EXPRESSIONS),
    st.builds("{}[{}] = {}".format, NAMES, NAMES, EXPRESSIONS),
    st.builds("del {}".format, NAMES),
    st.builds("global {}".format, NAMES),
    st.builds("import sys as {}".format, NAMES),
    st.builds("{}: {} = {}".format, NAMES, NAMES, EXPRESSIONS),
    st.sampled_from(["f()", "pass", "global a; a = 1"]),
)


def _block(lines: list[str]) -> str:
    return textwrap.indent("\n".join(lines), "  ")


def _compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    block = st.lists(inner, min_size=1, max_size=3).map(_block)
    return st.one_of(
        st.builds("if {}:\n{}\nelse:\n{}".format, EXPRESSIONS, block, block),
        st.builds("for {} in {}:\n{}\nelse:\n{}".format, NAMES, EXPRESSIONS, block, block),
        st.builds("for {} in {}:\n{}\n  break".format, NAMES, EXPRESSIONS, block),
        st.builds("while {}:\n{}\n  break".format, EXPRESSIONS, block),
        st.builds("with {} as {}:\n{}".format, NAMES, NAMES, block),
        st.builds("try:\n{}\nexcept NameError as {}:\n{}".format, block, NAMES, block),
        st.builds("try:\n{}\nfinally:\n{}".format, block, block),
        st.builds("match {}:\n  case [{}, *{}]: {}\n  case {}: pass".format, EXPRESSIONS, NAMES, NAMES, NAMES, NAMES),
        st.builds("def f({}={}):\n{}".format, NAMES, EXPRESSIONS, block),
        st.builds("def f():\n{}\n  def g():\n{}\n  g()".format, block, block),
        st.builds("class C:\n{}".format, block),
        st.builds("class C:\n{}\n  def m(self):\n{}\nC().m()".format, block, block),
    )


STATEMENTS = st.recursive(SIMPLE, _compound, max_leaves=5)
CELLS = st.lists(STATEMENTS, min_size=1, max_size=6).map("\n".join)


def _analysed(source: str) -> CellNames | None:
    """The cell's names, or None where it is not Python, on which the compiler and we must agree."""
    try:
        compile(source, "<cell>", "exec", dont_inherit=True)
    except SyntaxError:
        with pytest.raises(SyntaxError):
            names_of(source)
        return None
    return names_of(source)


def _run(source: str, space: dict[str, Any]) -> Exception | None:
    # Functions a cell makes may call themselves without end; what matters has been recorded long before.
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(min(limit, 250))
    try:
        exec(compile(source, "<cell>", "exec", dont_inherit=True), space)
    except Exception as error:
        return error
    finally:
        sys.setrecursionlimit(limit)
    return None


@pytest.mark.slow(10)
@settings(max_examples=300, deadline=None)
@given(source=CELLS, defined=st.sets(NAMES))
def test_misses_nothing_that_a_cell_does(source: str, defined: set[str]) -> None:
    names = _analysed(source)
    if names is None:
        return
    space = Recorder({name: Anything() for name in defined} | {"f": Anything()})
    before = dict(space)

    _run(source, space)

    pool = set("abcdf")
    assert space.asked & pool <= set(names.reads)
    assert space.asked_for_old & pool <= set(names.needs)
    changed = {name for name in pool if space.get(name, space) is not before.get(name, space)}
    assert changed <= set(names.writes)
    assert set(names.certain) <= set(names.needs) <= set(names.reads)


@pytest.mark.slow(10)
@settings(max_examples=300, deadline=None)
@given(source=CELLS, defined=st.sets(NAMES))
def test_refuses_only_what_would_have_failed(source: str, defined: set[str]) -> None:
    names = _analysed(source)
    if names is None:
        return
    try:
        check_names(names, {*defined, "f"})
    except NameNotDefined:
        space: dict[str, Any] = {name: Anything() for name in defined} | {"f": Anything()}
        assert _run(source, space) is not None


@pytest.mark.slow
@given(source=CELLS)
@settings(max_examples=50, deadline=None)
def test_every_use_lies_in_the_cell(source: str) -> None:
    names = _analysed(source)
    if names is None:
        return
    last = len(source.splitlines())
    words = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    for kind in (names.reads, names.writes, names.needs, names.certain):
        assert all(1 <= line <= last for line in kind.values())
    assert set(names.reads) <= words | {"f"}
