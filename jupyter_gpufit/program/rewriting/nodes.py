"""Building nodes of generated code. Those without a position take that of the user's statement they serve."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, TypeVar

from ..values import FRAME

N = TypeVar("N", bound=ast.AST)


def load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def frame(attribute: str) -> ast.Attribute:
    return ast.Attribute(load(FRAME), attribute, ast.Load())


def ask(method: str, *args: ast.expr | int) -> ast.Call:
    """`_gf_f.method(...)`"""
    values = [ast.Constant(one) if isinstance(one, int) else one for one in args]
    return ast.Call(frame(method), values, [])


def assign(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def do(value: ast.expr) -> ast.Expr:
    return ast.Expr(value)


def invert(test: ast.expr) -> ast.UnaryOp:
    return ast.UnaryOp(ast.Not(), test)


def on_path(number: int) -> ast.Compare:
    """Whether the place to go to is inside the construct of this number."""
    return ast.Compare(ast.Constant(number), [ast.In()], [frame("p")])


def clone(node: N, **changes: Any) -> N:
    """A copy with other parts: the trees of others are never changed."""
    made = type(node)(**{**dict(ast.iter_fields(node)), **changes})
    return ast.copy_location(made, node)


def at(place: ast.AST, made: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Give generated statements the position of the user's."""
    for one in made:
        if not hasattr(one, "lineno"):
            ast.copy_location(one, place)
    return list(made)
