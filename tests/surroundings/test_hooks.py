"""Hooks of an earlier cell are called in a training; what a cell takes back is gone in the notebook: real workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels import Kernel

pytestmark = pytest.mark.slow

HOOKED = """
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_full_backward_hook
seen = []
def note(name):
    return lambda *_: seen.append(name)
model = nn.Linear(2, 2)
own = [model.register_forward_hook(note(f"own {n}")) for n in range(4)]
everywhere = register_module_forward_hook(note("everywhere"))
backward = register_module_full_backward_hook(note("backward"))
"""
CELL = """
of_the_cell = model.register_forward_hook(note("of the cell"))
model(torch.ones(1, 2, requires_grad=True)).sum().backward()
everywhere.remove()
another = register_module_forward_hook(note("another"))
"""
AFTER = """
later = model.register_forward_hook(note("later"))
model(torch.ones(1, 2, requires_grad=True)).sum().backward()
for handle in (*own, of_the_cell, another, backward, later):
    handle.remove()
model(torch.ones(1, 2))
print(seen)
"""


def test_hooks_are_called_as_in_a_plain_notebook(kernel: Kernel) -> None:
    kernel.check(HOOKED)
    kernel.check(CELL)
    plain = kernel.check(AFTER).stdout
    assert plain.count("everywhere") == 1 and plain.count("another") == 1 and plain.count("later") == 1, plain
    kernel.check(HOOKED)
    kernel.check("%%gpufit train\n" + CELL)
    assert kernel.check(AFTER).stdout == plain


def test_what_the_cell_takes_back_is_gone_in_the_notebook(kernel: Kernel, home: Path) -> None:
    (home / "registers.py").write_text("table, row, names = {'first': 1}, [1], {'first'}\n")
    kernel.check(f"import sys; sys.path.insert(0, {str(home)!r})\nimport registers")
    kernel.check("registers.table['mine'] = 2; registers.row.append(2); registers.names.add('mine')")
    kernel.check(
        "%%gpufit train\n"
        "assert registers.table.pop('mine') == registers.row.pop() == 2; registers.names.remove('mine')\n"
    )
    kernel.check("print(registers.table, registers.row, registers.names)\nassert registers.table == {'first': 1}")
    kernel.check("assert registers.row == [1] and registers.names == {'first'}")
