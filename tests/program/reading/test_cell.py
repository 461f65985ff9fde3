"""What a cell is said to read, bind and change is compared with tables, and with what generated cells really do."""

from __future__ import annotations

import ast
import pickle
import sys
import textwrap
from types import FunctionType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_gpufit.errors import NameNotDefined
from jupyter_gpufit.program.reading.cell import CellNames, check_names, names_of, names_of_code

READS = {
    "x": "x",
    "x.y.z": "x",
    "f(x, *xs, k=y, **ys)": "f x xs y ys",
    "f'{x!r:>{width}}'": "x width",
    "x = y": "y",
    "x += y": "x y",
    "x[i] = y": "x i y",
    "x.a = y": "x y",
    "del x": "x",
    "del x[i]": "x i",
    "x: T = y": "T y",
    "from __future__ import annotations\nx: T = y": "y",
    "import x.y": "",
    "'a docstring'": "",
    "[f(i) for i in xs]": "f xs",
    "[i for i in xs if i in ys]": "xs ys",
    "[(i, j) for i in xs for j in i if j]": "xs",
    "{k: v for k, v in xs.items()}": "xs",
    "i = [i for i in i]": "i",
    "lambda a, b=x: a + b + y": "x y",
    "def f(a, b=x, *, c=y) -> T:\n  d = a\n  return d + z": "x y T z",
    "def f(a: T): pass": "T",
    "from __future__ import annotations\ndef f(a: T): pass": "",
    "@x\ndef f(): pass": "x",
    "def f():\n  x = 1\n  def g():\n    nonlocal x\n    x += y\n  return g": "y",
    "def f():\n  def g():\n    return x\n  x = 1\n  return g": "",
    "def f():\n  x = 1\n  def g():\n    global x\n    return x\n  return g": "x",
    "def f(a):\n  v: T = a": "",
    "class C(B, metaclass=M): pass": "B M",
    "class C:\n  x = x": "x",
    "class C:\n  x = 1\n  y = x": "",
    "class C:\n  x = 1\n  def f(self): return x": "x",
    "class C:\n  x = 1\n  y = [x for _ in xs]": "x xs",
    "class C:\n  if a: x = 1\n  y = x": "a x",
    "class C:\n  x = 1\n  del x\n  y = x": "x",
    "class C:\n  try: x = f()\n  except E: pass\n  y = x": "f E x",
    "class C:\n  def p(self): pass\n  @p.setter\n  def q(self): pass": "",
    "class C:\n  def f(self): return super().f() + __x": "super _C__x",
    "try: f()\nexcept E as e: g(e)": "f E g e",
    "with a as b, c(b) as d: pass": "a b c",
    "for x in xs: print(x)": "xs print x",
    "match x:\n  case P(a=b) if c: b": "x P b c",
    "match x:\n  case m.V: pass": "x m",
    "if (n := f(x)): n": "f x n",
    "await x": "x",
    "async for i in xs: pass": "xs",
    "if False: x": "",
    "global x": "",
}

WRITES = {
    "x = y = 1": "x y",
    "x, (y, *z) = f()": "x y z",
    "x[0] = x.a = 1": "",
    "x += 1": "x",
    "x: int = 1": "x",
    "x: int": "",
    "(x := 1)": "x",
    "[(x := i) for i in xs]": "x",
    "lambda: (x := 1)": "",
    "for x, y in xs: pass": "x y",
    "with a as x, b as (y, z): pass": "x y z",
    "try: pass\nexcept E as x: pass": "x",
    "import x, a.b, c.d as y": "x a y",
    "from m import x, z as y": "x y",
    "from m import *": "",
    "def x(a): b = 1": "x",
    "async def x(): pass": "x",
    "class x:\n  a = 1": "x",
    "def f():\n  global x, y\n  x = 1": "f x",
    "def f():\n  global x\n  import x": "f x",
    "class C:\n  global x\n  x = 1": "C x",
    "match v:\n  case [x, *y]: pass\n  case {'k': z, **w}: pass\n  case P() as p: pass": "x y z w p",
    "del x": "x",
    "if a:\n  x = 1\nelse:\n  y = 1": "x y",
    "'a docstring'": "",
}

NEEDS = {
    "x = 1\nx": "",
    "x\nx = 1": "x",
    "x = x": "x",
    "x += 1": "x",
    "def f(): return x\nx = 1": "x",
    "x = 1\ndef f(): return x": "",
    "for x in xs: y = x; print(y)": "xs print",
    "for x in xs: pass\nx": "xs x",
    "for x in xs:\n  if x: loss = 1\n  loss": "xs loss",
    "for x in xs: pass\nelse: x": "xs x",
    "if a: x = 1\nelse: x = 2\nx": "a",
    "if a: x = 1\nx": "a x",
    "if a: x = 1\nelse: raise E\nx": "a E",
    "while a:\n  x = 1\n  if x: break\nx": "a x",
    "while True:\n  x = 1\n  if x: break\nx": "",
    "try: x = f()\nexcept E: x = 1\nx": "f E",
    "try: x = f()\nexcept E: pass\nx": "f E x",
    "try: x = f()\nfinally: x": "f x",
    "x = 1\ntry: f()\nexcept E: pass\nx": "f E",
    "try: f()\nexcept E as e: e": "f E",
    "with a as x: x": "a",
    "with a: x = 1\nx": "a x",  # the context manager may have swallowed what kept x from being bound
    "[(x := i) for i in xs]\nx": "xs x",
    "import x.y\nx": "",
    "del x\ny = lambda: x": "x",
    "x = 1\ndel x": "",
    "def f(): return f()": "f",  # a decorator might have called it before it was bound
}

CERTAIN = {
    "x": "x",
    "x = y.a[z]": "y z",
    "x = x": "x",
    "x += y": "x y",
    "x = 1\nx": "",
    "x\nx = 1": "x",
    "del x": "x",
    "x.a = y": "x y",
    "a and b": "a",
    "a if b else c": "b",
    "a < b < c": "a b",
    "lambda a=x: y": "x",
    "[y for i in xs for j in ys]": "xs",
    "f(x)": "f x",
    "f'{x:{y}}'": "x y",
    "(x := y) + x": "y",
    "import a\na.f(x)": "x",
    "if a: b\nc": "a c",
    "if a: x = 1\nx": "a",
    "for i in xs: y\nz": "xs z",
    "while a: b\nz": "a z",
    "while True: f()\nz": "",
    "with a as x, b: c\nz": "a z",
    "try: a\nexcept b: c\nz": "z",
    "match a:\n  case [b] if c: d": "a",
    "@d\ndef f(a=b) -> c: return e": "d b",
    "@d\nclass C(B, metaclass=M): x": "d B M",
    "x: T = y": "y",
    "x: T": "",
    "def f():\n  global x\n  x = 1\nf()\nx": "",
    "from m import *\nx": "",
    "exec('x = 1')\nx": "",
    "globals()['x'] = 1\nx": "",
    "get_ipython().run_line_magic('load_ext', 'a')\nx": "",
    "import builtins\nbuiltins.x = 1\nx": "",
    "gettext.install('a')\nx": "",
    "if a: raise E\nx": "",
    "assert a\nx": "",
    "def f(): raise E\nx": "x",
    "if a: sys.exit()\nx": "",
    "model.eval()\nx": "model x",
    "await x": "x",
}


@pytest.mark.parametrize(
    ("kind", "source", "expected"),
    [
        pytest.param(kind, source, set(expected.split()), id=f"{kind}: {source!r}")
        for kind, table in (("reads", READS), ("writes", WRITES), ("needs", NEEDS))
        for source, expected in table.items()
    ]
    + [pytest.param("certain", source, set(expected.split()), id=source) for source, expected in CERTAIN.items()],
)
def test_finds_exactly(kind: str, source: str, expected: set[str]) -> None:
    assert set(getattr(names_of(source), kind)) == expected


@pytest.mark.skipif(sys.version_info < (3, 12), reason="syntax of Python 3.12")
@pytest.mark.parametrize(
    ("source", "reads", "writes"),
    [
        ("type X = Y", "Y", "X"),
        ("type X[T] = list[T]", "list", "X"),
        ("def f[T: B](a: T): return T", "B", "f"),
        ("class C[T](Base[T]):\n  x = T", "Base", "C"),
        ("class C:\n  T = 1\n  type A = T", "T", "C"),
    ],
)
def test_knows_type_parameters(source: str, reads: str, writes: str) -> None:
    names = names_of(source)

    assert set(names.reads) <= set(reads.split()) | {"T"}
    assert set(reads.split()) <= set(names.reads)
    assert set(names.writes) == set(writes.split())


def test_gives_the_first_line_of_each_use() -> None:
    names = names_of("import a\n\nx = (\n  b +\n  c)\nb.d()\ndef f():\n  return b, e\n")

    assert names.reads == {"b": 4, "c": 5, "e": 8}
    assert names.writes == {"a": 1, "x": 3, "f": 7}
    assert names.certain == {"b": 4, "c": 5}


@pytest.mark.parametrize(
    ("source", "dynamic"),
    [
        ("exec(text)", True),
        ("x = eval('y')", True),
        ("g = globals", True),
        ("locals()", True),
        ("vars()", True),
        ("vars(args)", False),
        ("get_ipython().system('ls')", True),
        ("model.eval()", False),
        ("def f(eval): eval()", False),
        ("x = 1", False),
    ],
)
def test_says_whether_the_whole_namespace_is_reached(source: str, dynamic: bool) -> None:
    assert names_of(source).dynamic is dynamic


@pytest.mark.parametrize("source", ["x =", "return 1", "def f():\n  x = 1\n  global x", "  x"])
def test_leaves_a_syntax_error_to_the_caller(source: str) -> None:
    with pytest.raises(SyntaxError):
        names_of(source)


def test_keeps_the_warnings_of_a_cell_for_its_run() -> None:
    assert "x" in names_of(r"x = '\d' is 'd'").writes


def _body(source: str) -> FunctionType:
    space: dict[str, Any] = {}
    exec(textwrap.dedent(source), space)
    function = next(value for value in space.values() if isinstance(value, FunctionType))
    return function


def test_finds_the_globals_of_a_function_and_of_what_is_inside_it() -> None:
    function = _body(
        """
        def step(batch, lr=0.1):
            import json
            out = model.forward(batch)
            class Inner(Base):
                k = k
                def go(self):
                    global counter
                    counter = json.dumps(self.cfg)
            return [scale(o, lr) for o in out if (lambda z: z > limit)(o)]
        """
    )

    assert names_of_code(function.__code__) == {"model", "Base", "k", "counter", "scale", "limit"}


def test_refuses_a_name_that_nothing_defines() -> None:
    names = names_of("import torch\nfor batch in loader: pass\nprint(modell, torch)")

    with pytest.raises(NameNotDefined) as caught:
        check_names(names, {"model", "loader", "_model"})

    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.name, error.line, error.near) == ("modell", 3, ("model",))
    assert "Did you mean model?" in str(error)


def test_does_not_propose_the_name_itself() -> None:
    with pytest.raises(NameNotDefined) as caught:
        check_names(names_of("print(big)\nbig = 1"), set())

    assert caught.value.near == ("bin",)


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


@pytest.mark.slow
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


@pytest.mark.slow
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
