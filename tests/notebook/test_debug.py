"""A cell that has failed in its worker, looked at with the notebook's %debug."""

from __future__ import annotations

import re

import pytest

from tests.kernels import Kernel

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# A debugger whose commands are typed in beforehand; from Python 3.13 on one of its own shows first where it stands.
TYPED = """
from IPython.core.debugger import Pdb
class Typed(Pdb):
    def cmdloop(self, intro=None):
        for line in [*self.cmdqueue, *{lines!r}]:
            self.onecmd(line)
get_ipython().InteractiveTB.debugger_cls, get_ipython().InteractiveTB.pdb = Typed, None
%debug
"""


@pytest.mark.slow(6)
def test_it_stands_where_the_cell_failed_and_has_the_values_there(kernel: Kernel) -> None:
    kernel.check(
        "import torch\n"
        "net = torch.nn.Linear(3, 4)\n"
        "def score(net, batches):\n"
        "    total = 0\n"
        "    for number, batch in enumerate(batches):\n"
        "        hidden, rest = net(batch), (one for one in batch)\n"
        "        total += (hidden @ batch).sum().item()\n"
        "    return total\n"
    )
    failed = kernel.run("%%gpufit train\nfor epoch in range(3):\n    score(net, [torch.ones(2, 3)])\n")
    assert failed.ename == "RuntimeError" and "stayed in the worker" not in failed.shown

    shown = typed(
        kernel,
        "p number, tuple(batch.shape), tuple(hidden.shape), total",
        "p hidden.grad_fn is not None, rest",
        "p net is get_ipython().user_ns['net']",
        "up",
        "p epoch",
    )
    assert "(0, (2, 3), (2, 4), 0)" in shown
    assert "(True, <generator object" in shown
    assert "total += (hidden @ batch).sum().item()" in shown
    assert "score(net, [torch.ones(2, 3)])" in shown  # the text of the cell, one frame up
    assert shown.rstrip().endswith("\n0") and "\nTrue\n" in shown
    assert "jupyter_gpufit" not in shown


def test_in_a_notebook_that_attaches_later_too(kernel: Kernel) -> None:
    kernel.check("def fall(depth):\n    return 1 / depth if depth == 0 else fall(depth - 1)\n")
    kernel.check("%%gpufit train --detach --name fell\nfall(2)\n")
    assert kernel.run("%gpufit attach fell").ename == "ZeroDivisionError"

    assert typed(kernel, "p depth").endswith("\n0\n")


def typed(kernel: Kernel, *lines: str) -> str:
    return COLOUR.sub("", kernel.check(TYPED.format(lines=lines)).stdout)
