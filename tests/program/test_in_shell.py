"""In IPython, as in a worker: what is displayed, tracebacks, magics."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SHELL = """
import ast, sys, types
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
from jupyter_gpufit.program import Program, hidden

config = Config()
config.HistoryManager.enabled = False
config.InteractiveShell.colors = "NoColor"
shell = InteractiveShell.instance(config=config, user_module=types.ModuleType("__main__"))
on = sys.argv[1] == "rewritten"
points = 0

def ask():
    global points
    points += 1

class Transformer(ast.NodeTransformer):
    def visit(self, node):
        program.flags = shell.compile.flags
        name = shell.compile.get_code_name(text, shell.transform_cell(text), shell.execution_count)
        return program.cell(node, name)

for text in sys.stdin.read().split("=====\\n"):
    program = Program(shell.user_ns)
    program.at_safe_point, program.pending = ask, True
    shell.ast_transformers = [Transformer()] if on else []
    shell.run_cell(text, store_history=False)
    assert not program.notes, program.notes
    program.leave()
    assert not any(map(hidden, shell.user_ns))
print("points:", points)
"""

CELLS = {
    "the last expression is displayed": """
def f(n):
    for i in range(n):
        pass
    return n
for i in range(2):
    pass
f(2) + 1
=====
for i in range(2):
    i
i + 7;
=====
for i in range(2):
    i
else:
    'not displayed'
=====
x = [f(i) for i in range(3)]
x
""",
    "a traceback shows the cell's own lines": """
def inner(n):
    for i in range(n):
        if i == 1:
            raise ValueError(
                "in two lines"
            )

class Trainer:
    def fit(self):
        with open("/dev/null") as f:
            for epoch in range(2):
                self.step(inner(epoch), inner(epoch + 1))
    def step(self, a, b):
        pass

def batches():
    yield 1
    raise KeyError("in a generator")

Trainer().fit()
=====
for b in batches():
    print(b)
=====
for e in range(2):
    print(e / 0)
=====
import traceback
for e in range(2):
    try:
        list(batches())
        Trainer().fit()
    except Exception:
        traceback.print_exc(file=sys.stdout) if "sys" in globals() else print(traceback.format_exc())
""",
    "magics run loops too": """%%time
for i in range(3):
    pass
def g():
    yield i
list(g())
=====
%time for i in range(2): print(i)
=====
get_ipython().run_cell("for i in range(2): print(i)")
for i in range(2):
    get_ipython().run_cell("for k in range(2): print(i, k)")
""",
    "the flags of an earlier cell": """
from __future__ import annotations
for i in range(2):
    x: Unknown = i
=====
def f(n: Unknown):
    for i in range(n):
        y: AlsoUnknown = i
    return f.__annotations__
for i in range(2):
    z = f(i)
z
""",
    "the text of functions": """
import inspect
def g(n):
    'What it is for.'
    for i in range(n):
        yield i
def f(n):
    for i in g(n):
        print(inspect.getsource(f), inspect.getsource(g), inspect.stack()[0].lineno)
for k in range(2):
    f(k)
""",
}


def shell(text: str, how: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SHELL, how],
        input=text,
        text=True,
        capture_output=True,
        cwd=Path(__file__).parents[2],
        env=os.environ | {"PYTHONHASHSEED": "0"},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    return re.sub(r"(CPU times|Wall time): .*|0x\\w+|/tmp/\\S+", "", said)


@pytest.mark.slow
@pytest.mark.parametrize("name", CELLS)
def test_all_is_as_without_rewriting(name: str) -> None:
    plain, points = shell(CELLS[name], "plain"), shell(CELLS[name], "rewritten")

    lines, ours = plain.splitlines(), points.splitlines()
    assert ours[:-1] == lines[:-1]
    assert int(ours[-1].removeprefix("points: ")) > 3
