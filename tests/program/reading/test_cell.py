"""What a cell is said to read, bind and change is compared with tables, and with what generated cells really do."""

from __future__ import annotations

import pickle
import sys
import textwrap
from types import FunctionType
from typing import Any

import pytest

from jupyter_gpufit.errors import NameNotDefined
from jupyter_gpufit.program.reading.cell import check_names, names_of, names_of_code

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
