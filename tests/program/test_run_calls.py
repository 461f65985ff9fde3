"""A text that a cell runs by exec() is left and entered at every point, as the cell is."""

from __future__ import annotations

import pytest

from jupyter_gpufit.program.running import run_calls

from .crossing import World, at_points, in_a_chain, plain, rewritten

TEXT = """'''What it is for.'''
from __future__ import annotations
from string import *
from contextlib import nullcontext
total: int = 0
def numbers(n):
    for i in range(n):
        yield i * i
class Summed:
    def __init__(self): self.seen = []
    def add(self, n):
        for one in numbers(n):
            self.seen.append(one)
            say((len(self.seen), len(digits) + one))
        return sum(self.seen)
summed = Summed()
for epoch in range(3):
    total += summed.add(2)
    say([epoch + one for one in range(2)])
else:
    say("ended")
try:
    with nullcontext() as nothing:
        for one in (lambda: range(2))():
            say((one, __name__, __doc__))
            if one: raise ValueError(total)
except ValueError as error:
    say(str(error))
"""
IN_NAMESPACE = f"exec({TEXT!r})\nfor one in range(2): say((total, one))\nsay(summed.add(1))"


@pytest.mark.slow(4)
def test_it_goes_on_from_every_point_in_the_notebooks_own_variables() -> None:
    assert at_points(IN_NAMESPACE) >= 12
    assert in_a_chain(IN_NAMESPACE) >= 8


def test_texts_that_run_texts_go_on_from_every_point() -> None:
    inner = "for i in range(2): say((depth, i))"
    middle = f"for depth in range(2):\n    exec({inner!r})\n    say('again')\nsay(depth)"
    cell = f"for turn in range(2):\n    exec({middle!r}, globals())\n    say(turn)"

    assert at_points(cell) == rewritten(cell).points
    assert in_a_chain(cell) >= 10


def test_what_it_runs_in_is_as_it_would_be() -> None:
    cell = (
        "own = {'n': 2}\nexec('for i in range(n): pass\\ndef f():\\n    for i in range(n): yield i', own)\n"
        "say([name for name in own if name != '__builtins__' and name != '__gf__'])\nsay(list(own['f']()))"
    )
    world = World()

    ran = world.run(cell)

    assert ran.log == plain(cell).log == [["n", "i", "f"], [0, 1]] and not ran.error
    assert not [name for name in world.namespace["own"] if name.startswith(("__gf", "_gf"))]


@pytest.mark.parametrize(
    "cell",
    [
        "exec('x = 1')\nsay(x)",
        "def f():\n    y = 2\n    exec('for i in range(2): say((i, y))')\nf()",
        "own = {}\nexec('for i in range(2): x = i', {'say': say}, own)\nsay(own)",
        "exec('for i in range(2): say(1 / i)')",
        "exec('def (')",
        "exec(5)",
        "code = compile('for i in range(2): say(i)', '<no file>', 'exec')\nexec(code)",
        "from __future__ import annotations\nexec('def f(x: nowhere):\\n    for i in range(x): say(i)\\nf(2)')",
        "exec('for i in range(2): say(i)\\nraise SystemError(i)')",
    ],
)
def test_it_does_what_exec_does(cell: str) -> None:
    plainly, ran = plain(cell), rewritten(cell)

    assert ran.log == plainly.log
    assert ran.error[-1] == plainly.error[-1] if plainly.error else not ran.error


@pytest.mark.slow(1)
def test_a_text_that_has_run_keeps_nothing_alive() -> None:
    """A search runs the same file again and again."""
    text = "class Big: pass\nbig = Big()\ndef used():\n    for i in range(2): yield big\nfor one in used(): pass"
    cell = (
        f"import gc, weakref\nkept = []\nfor turn in range(3):\n    own = {{}}\n    exec({text!r}, own)\n"
        "    kept.append(weakref.ref(own['big']))\ndel own\ngc.collect()\nsay([one() is None for one in kept])"
    )

    assert rewritten(cell).log == plain(cell).log == [[True] * 3]


def test_options_of_run_with_which_it_does_more() -> None:
    assert run_calls._options("-i -n train.py --epochs 3 -t") == {"i", "n"} <= run_calls._KEPT
    assert not run_calls._options("-t -N5 train.py") <= run_calls._KEPT
