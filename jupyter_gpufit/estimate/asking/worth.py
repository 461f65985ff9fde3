"""Whether a cell could put anything on a device at all: most cells that could not are known without a trace; pure.

To be wrong costs little: a cell taken for a training is traced in vain; another claims a whole device.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from ...system.objects import module_of

# Libraries that import no torch, and whose objects hold none of its tensors.
_WITHOUT = frozenset(
    "numpy pandas scipy matplotlib seaborn plotly altair PIL cv2 tqdm polars pyarrow sympy networkx requests yaml"
    " IPython ipywidgets jupyter_gpufit".split()
)
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_TORCH = re.compile(r"\b(torch|cuda|Trainer)\b")
_GPU = re.compile(r"cuda|gpu(?!fit)|accelerator", re.IGNORECASE)
_TRAINS = re.compile(r"\.backward\(")
_PROGRAMS = re.compile(r"\b(system|getoutput|run_cell_magic|run_line_magic|subprocess|popen|Popen|multiprocessing)\b")
_MOST_LOOKED_AT = 1000  # values; a namespace with more is not looked through


def may_train(source: str) -> bool | None:
    """What the text alone says, after IPython's transformer; None: that depends on what the cell is given."""
    if _TORCH.search(source):
        return True
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return False  # the run will say so
    if any(map(_may_use_torch, _imported(tree))):
        return True
    return None if any(isinstance(node, ast.Call) for node in ast.walk(tree)) else False


def may_start_programs(source: str) -> bool:
    """Whether the cell may start a program, of which nothing is known here; after IPython's transformer."""
    return _PROGRAMS.search(source) is not None


def names_a_gpu(source: str, values: Mapping[str, Any]) -> bool:
    """Whether the cell, or a function of the notebook that it was given, asks for one in words."""
    functions = [value for value in values.values() if type(value) is FunctionType and value.__module__ == "__main__"]
    return any(map(_GPU.search, [source, *(" ".join(_words(one)) for one in functions)]))


def may_train_with(values: Mapping[str, Any]) -> bool:
    """What the variables say that the cell is given; those that its functions use are among them."""
    todo, seen = list(values.values()), 0
    while todo:
        value = todo.pop()
        seen += 1
        if seen > _MOST_LOOKED_AT:
            return True
        if isinstance(value, (list, tuple, set, frozenset)):
            todo += value
        elif isinstance(value, dict):
            todo += value.values()
        elif isinstance(value, FunctionType) and value.__module__ == "__main__":
            if _TORCH.search(" ".join(_words(value))):
                return True
        elif not isinstance(value, _PLAIN) and _may_use_torch(_home(value)):
            return True
    return False


def means_to_train(source: str, values: Mapping[str, Any]) -> bool:
    """Whether the cell, or a function of the notebook that it leads to, computes gradients."""
    if _TRAINS.search(source):
        return True
    try:
        todo = [node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)]
    except SyntaxError:
        return False
    seen: set[str] = set()
    while todo:
        name = todo.pop()
        value = values.get(name)
        if name not in seen and type(value) is FunctionType and value.__module__ == "__main__":
            words = list(_words(value))
            if "backward" in words:
                return True
            todo += words
        seen.add(name)
    return False


def _home(value: Any) -> str:
    """The module that a value is of, or is."""
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, (type, FunctionType, BuiltinFunctionType)):
        return module_of(value)
    return module_of(type(value))


def _words(fn: FunctionType) -> Iterable[str]:
    codes = [fn.__code__]
    for code in codes:
        yield from code.co_names
        codes += [constant for constant in code.co_consts if hasattr(constant, "co_names")]


def _imported(tree: ast.AST) -> Iterable[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def _may_use_torch(module: str) -> bool:
    top = module.partition(".")[0]
    return top not in sys.stdlib_module_names and top not in _WITHOUT or top == "__main__"
