from __future__ import annotations

import ast
import textwrap
from typing import Any

import pytest

from jupyter_gpufit.errors import NotHere
from jupyter_gpufit.program import Program, hidden
from jupyter_gpufit.program.running.frame import Frame
from jupyter_gpufit.program.values import FrameRecord, Unit

from .crossing import FILE, World, at_points, plain, rewritten


def test_a_cell_without_loops_is_left_as_it_is() -> None:
    world = World()
    tree = ast.parse("def f(n):\n    for i in range(n): pass\nx = 1\ndef g():\n    yield 1\nsum(g())")

    assert world.program.cell(tree, FILE) is tree
    assert not any(map(hidden, world.namespace))


def test_a_cell_that_awaits_is_left_as_it_is_and_says_so() -> None:
    program = Program({})
    tree = ast.parse("import anyio\nfor i in range(2):\n    await anyio.sleep(0)")

    assert program.cell(tree, FILE) is tree
    assert "awaits" in program.notes[0]


def test_a_cell_that_cannot_be_rewritten_runs_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: Any, **kwargs: Any) -> Any:
        raise RecursionError("too deep")

    monkeypatch.setattr("jupyter_gpufit.program.running.program.cell_form", fails)
    ran = rewritten("def g():\n    yield 1\nfor i in g(): say(i)")

    assert ran.log == [1]
    assert "too deep" in ran.notes[0]


def test_what_the_cell_gives_the_shell_to_run_is_left_as_it_is() -> None:
    world = World()
    world.program.cell(ast.parse("for i in range(2): pass"), FILE)
    inner = ast.parse("for i in range(2): pass")

    assert world.program.cell(inner, "<cell 8>") is inner
    world.program.leave()  # or the samplers of torch stay rewritten for all tests after this one


def test_the_notebook_gets_its_own_generator_functions_back() -> None:
    world = World()
    text = "def g(n):\n    for i in range(n): yield i\ndef f():\n    return g(2)\nfor i in f(): say(i)"

    world.run(text)

    known: dict[str, Any] = {}
    exec(compile(text.partition("for i in f()")[0], FILE, "exec", dont_inherit=True), known)
    assert world.namespace["g"].__code__ == known["g"].__code__
    assert not any(map(hidden, world.namespace))
    assert list(world.namespace["g"](3)) == [0, 1, 2]


def test_functions_keep_their_text_and_their_code() -> None:
    text = textwrap.dedent("""
        def g(n):
            '''What it is for.'''
            for i in range(n):
                yield i

        def f(n):
            for i in g(n):
                say(i)

        def looked(n):
            import inspect
            for i in range(1):
                say((inspect.getsource(f), inspect.getsource(g), g.__doc__, inspect.isgeneratorfunction(g)))
                say([frame.function for frame in inspect.stack()][:2])
                say(f.__code__.co_varnames)

        for k in range(2):
            f(k)
        looked(1)
    """)

    assert rewritten(text).log == plain(text).log


def where(text: str, point: int) -> str:
    world, found = World(), ["never"]

    def ask() -> None:
        world.points += 1
        if world.points == point:
            found[0] = world.program.where()

    world._run(text, ask)
    return found[0]


def test_it_says_where_it_stands() -> None:
    text = "def train(n):\n    say(n)\n    for i in range(n):\n        pass\nfor e in range(2):\n    train(e)"

    assert where(text, 1) == "line 5 of the cell"
    assert where(text, 2) == "line 3, in train()"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("list(each(2))", "the loop runs inside each"),
        ("sorted([1], key=f)", ""),
    ],
)
def test_a_loop_that_cannot_be_left_has_no_safe_point(call: str, why: str) -> None:
    text = f"""
def f(n):
    for i in range(n):
        say(i)
    return n

def each(n):
    while n:
        n -= 1
        f(1)
        yield n

for e in range(2):
    {call}
"""
    assert rewritten(text).points == 3  # of the cell's own loop
    assert at_points(text) == 3


@pytest.mark.parametrize(
    "text",
    [
        "match 1:\n    case 1:\n        for i in range(2):\n            say(i)\n",
        "try:\n    1 / 0\nexcept ZeroDivisionError:\n    for i in range(2):\n        say(i)\n",
        "def g():\n    try: 1 / 0\n    except ZeroDivisionError: yield 1; yield 2\nfor i in g():\n    say(i)\n",
        "for i in (k for k in range(2)):\n    say(i)\n",
    ],
    ids=["a case of a match", "an except block", "a generator's except block", "a generator expression"],
)
def test_there_are_safe_points_in(text: str) -> None:
    assert at_points(text) == 3


def test_a_request_is_deferred_with_its_reason() -> None:
    text = """
def f(callback):
    for i in range(2):
        callback(i)

def called(i):
    global f
    for k in range(2):
        say((i, k))

for e in range(2):
    f(lambda i: called(i))
"""
    assert rewritten(text).points == 21
    generator = "def g():\n    try:\n        yield 1\n    finally:\n        yield 2\n        yield 3\n\n"
    saved = World().until(generator + "for x in g():\n    say(x)", 3)
    assert isinstance(saved, str)
    assert "except or finally" in saved


def test_a_generator_of_unknown_text_is_named() -> None:
    saved = World().until("exec('def g():\\n  yield 1\\n  yield 2')\nfor x in g():\n    say(x)", 2)

    assert isinstance(saved, str)
    assert saved.startswith("The generator g (the cell, line 2)")


def test_functions_still_go_to_processes_of_the_users_own() -> None:
    text = """
import cloudpickle, pickle
def g(n):
    for i in range(n):
        yield from [i, -i]
def f(n):
    return list(g(n))
for i in range(2):
    say(pickle.loads(cloudpickle.dumps(f))(3))
"""
    assert rewritten(text).log == [[0, 0, 1, -1, 2, -2]] * 2


def test_nothing_is_saved_outside_a_cell() -> None:
    with pytest.raises(NotHere):
        Program({}).records()


def test_python_debuggers_stop_at_the_users_lines() -> None:
    text = """
import pdb, io
def f(n):
    for i in range(n):
        say(i)
    return n

def run():
    for k in range(2):
        f(k + 1)

commands = io.StringIO("step\\n" * 3 + "where\\nargs\\ncontinue\\n")
out = io.StringIO()
debugger = pdb.Pdb(stdin=commands, stdout=out, nosigint=True, readrc=False)
debugger.use_rawinput = False
debugger.prompt = ""
for once in range(1):
    debugger.set_break
    f(1)
"""
    assert rewritten(text).log == [0]


def test_a_while_of_a_checkpoint_without_its_turns_is_around_the_loop_inside() -> None:
    paths = {0: frozenset({0}), 1: frozenset({0, 1}), 2: frozenset({2})}
    program: Any = None
    frame = Frame(program, Unit("cell", "cell", "the cell", FILE, paths, {}))
    frame.load(FrameRecord("cell", 1, {}, {}, None, {1: iter([])}, {}), [])

    assert frame.wh(0) and not frame.wh(2)
    assert list(frame.its) == [0, 1]
