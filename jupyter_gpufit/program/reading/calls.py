"""Which places of a text may lead to a loop, read from the text alone: all calls but those that surely do not.

What is called is asked when it is called. That costs a fraction of a microsecond, so it is spared where the text says
that nothing can come of it: calls of Python's own functions, of generator functions, and of modules without loops to be
left. The text alone decides, because a resumed cell has to find its places under the numbers that they had. A property
is called where nothing looks like a call: so attributes are asked that have the name of one in whose getter is a loop.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import BuiltinFunctionType
from typing import TypeGuard

from .scopes import Loop, bound_by, inside, is_yield

# A temporary or a frame of ours between them and the user's code would change what these see.
LOOK_AT_THE_FRAME = frozenset({"super", "locals", "globals", "vars", "dir", "eval", "exec"})
# Nothing is left in the midst of these: what computes, and what runs the cells themselves.
NEVER_LEFT = frozenset({"torch", "functorch", "torchgen", "triton", "numpy", "jupyter_gpufit"}) | (
    frozenset({"IPython", "ipykernel", "ipywidgets", "traitlets", "comm", "zmq", "tornado", "jupyter_client"})
)
_HANDS_ON = frozenset({"contextlib", "functools", "runpy"})  # of the standard library: they call what they are given
_OF_GENERATORS = frozenset({"iter", "next"})  # which may be generators' that can be left
_PROPERTIES = frozenset({"property", "cached_property"})
_OF_PYTHON = frozenset(
    name for name, one in vars(builtins).items() if isinstance(one, BuiltinFunctionType | type) and name[0].islower()
) - {"eval", "exec", "compile", "open", "display", *_OF_GENERATORS}

Bindings = dict[str, bool]  # a name, and whether all that it is bound to is plain; `.name` is a getter's, and is not


@dataclass(frozen=True)
class Names:
    """What is known of names before anything is called."""

    plain: frozenset[str] = frozenset()  # by which nothing is called that could be left midway
    getters: frozenset[str] = frozenset()  # of properties that could be left midway


def is_never_left(module: str) -> bool:
    """Whether functions of a module run to their end."""
    package = module.partition(".")[0]
    return package in NEVER_LEFT or (package in sys.stdlib_module_names and package not in _HANDS_ON)


def names_of(*bindings: Bindings, getters: frozenset[str] = frozenset()) -> Names:
    """`getters`: which there are besides."""
    found: Bindings = {}
    for one in bindings:
        for name, is_plain in one.items():
            found[name] = is_plain and found.get(name, True)
    plain = {name for name, is_plain in found.items() if is_plain} | (_OF_PYTHON - found.keys())
    return Names(frozenset(plain), getters | {name[1:] for name in found if name.startswith(".")})


def bindings_of(nodes: Iterable[ast.AST]) -> Bindings:
    found: Bindings = {}
    for node in nodes:
        for name, is_plain in _bound(node):
            found[name] = is_plain and found.get(name, True)
    return found


def _bound(node: ast.AST) -> Iterator[tuple[str, bool]]:
    match node:
        case ast.Import(names=aliases):
            for alias in aliases:
                yield alias.asname or alias.name.partition(".")[0], is_never_left(alias.name)
        case ast.ImportFrom(module=module, level=level, names=aliases):
            for alias in aliases:
                yield alias.asname or alias.name, not level and module is not None and _is_plain_import(module)
        case ast.FunctionDef(name=name):
            yield name, any(map(is_yield, inside(node)))
            if _is_getter(node):
                yield f".{name}", False
        case ast.arg(arg=name):
            yield name, False
        case _:
            yield from ((name, False) for name in bound_by(node))


def _is_plain_import(module: str) -> bool:
    return is_never_left(module) and module.partition(".")[0] not in _HANDS_ON


def _is_getter(node: ast.FunctionDef) -> bool:
    """Whether it is a property's that may take long: `next(self.parameters()).device` does not."""
    last = node.decorator_list[-1] if node.decorator_list else None
    name = last.attr if isinstance(last, ast.Attribute) else getattr(last, "id", "")
    if name not in _PROPERTIES or not (owner := [*node.args.posonlyargs, *node.args.args]):
        return False
    nodes = [*inside(node)]
    drawn = {id(arg) for one in nodes if _is_of_generators(one) for arg in one.args}
    return any(isinstance(one, Loop) or (id(one) not in drawn and _is_method_call(one, owner[0].arg)) for one in nodes)


def _is_of_generators(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _OF_GENERATORS


def _is_method_call(node: ast.AST, owner: str) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and (isinstance(node.func.value, ast.Name) and node.func.value.id == owner)
    )


def leads_on(node: ast.AST, names: Names) -> bool:
    """Whether a node is a call that may come to a loop, or an attribute that may be one."""
    if isinstance(node, ast.Attribute):
        return node.attr in names.getters and isinstance(node.ctx, ast.Load)
    if not isinstance(node, ast.Call) or is_to_the_shell(node):
        return False
    if isinstance(node.func, ast.Name) and node.func.id in LOOK_AT_THE_FRAME - {"exec"}:
        return False
    root: ast.expr = node.func
    while isinstance(root, ast.Attribute):
        root = root.value
    if is_to_the_shell(root):
        return is_run(node)
    return not (isinstance(root, ast.Name) and root.id in names.plain)


def is_to_the_shell(node: ast.AST) -> bool:
    """`get_ipython()`, of which magics are made."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "get_ipython"


def is_run(node: ast.AST) -> bool:
    """`%run`, of which is made `get_ipython().run_line_magic("run", ...)`."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and (node.func.attr == "run_line_magic" and is_to_the_shell(node.func.value))
        and isinstance(node.args[0], ast.Constant)
        and node.args[0].value == "run"
    )
