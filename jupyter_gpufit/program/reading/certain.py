"""Which names a cell is bound to look up in the notebook, whatever happens while it runs.

A name found here and defined nowhere is a NameError to come, perhaps after hours of training. A wrong refusal would be
worse than none, so doubt is resolved by silence: nothing inside branches, loops, guarded blocks and functions counts,
and nothing after a statement that may end the cell on purpose or define names unseen. Not seen is a library call that
defines a name behind everyone's back, unless it is called install.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping

WHOLE_NAMESPACE = frozenset({"exec", "eval", "globals", "locals", "get_ipython"})


def certain_reads(tree: ast.Module, writes: Mapping[str, int]) -> dict[str, int]:
    """The names read at top level in every run, before anything in the cell could have bound them."""
    certain: dict[str, int] = {}
    ended: float = 0  # the last line of what came before
    for statement in tree.body:
        if _may_leave_or_define(statement):
            break
        walrus = {node.target.id for node in ast.walk(statement) if isinstance(node, ast.NamedExpr)}
        for name in _evaluated(*_heads(statement)):
            if writes.get(name.id, math.inf) > ended and name.id not in walrus:
                certain.setdefault(name.id, name.lineno)
        ended = statement.end_lineno or math.inf
    return certain


def _heads(statement: ast.stmt) -> list[ast.expr]:
    """The expressions a statement always evaluates before it binds anything; none where that is not plain."""
    match statement:
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript() as target]):
            return [statement.value, target]
        case ast.Expr(value=value) | ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
            return [value]
        case ast.AugAssign():
            return [statement.target, statement.value]
        case ast.Delete():
            return statement.targets
        case ast.If() | ast.While():
            return [statement.test]
        case ast.For() | ast.AsyncFor():
            return [statement.iter]
        case ast.With() | ast.AsyncWith():
            return [statement.items[0].context_expr]  # this one may swallow what the next ones raise
        case ast.Match():
            return [statement.subject]
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return [*statement.decorator_list, *_defaults(statement.args)]
        case ast.ClassDef() if not getattr(statement, "type_params", None):  # bases may name the type parameters
            return [*statement.decorator_list, *statement.bases, *(keyword.value for keyword in statement.keywords)]
    return []


def _evaluated(*nodes: ast.AST) -> Iterator[ast.Name]:
    """The names in an expression that are looked up whatever the others turn out to be."""
    for node in nodes:
        match node:
            case ast.Name():
                yield node
            case ast.Lambda():
                yield from _evaluated(*_defaults(node.args))
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                yield from _evaluated(node.generators[0].iter)
            case ast.BoolOp():
                yield from _evaluated(node.values[0])
            case ast.IfExp():
                yield from _evaluated(node.test)
            case ast.Compare():
                yield from _evaluated(node.left, node.comparators[0])
            case ast.NamedExpr():
                yield from _evaluated(node.value)
            case _:
                yield from _evaluated(*ast.iter_child_nodes(node))


def _defaults(args: ast.arguments) -> list[ast.expr]:
    return [*args.defaults, *(default for default in args.kw_defaults if default)]


def _may_leave_or_define(statement: ast.stmt) -> bool:
    """Whether the cell may end here on purpose, or names may appear that nobody can see coming."""
    if isinstance(statement, ast.While) and isinstance(statement.test, ast.Constant):
        return True
    return any(map(_reaches_namespace, ast.walk(statement))) or any(
        isinstance(node, ast.Raise | ast.Assert) for node in _outside_functions(statement)
    )


def _reaches_namespace(node: ast.AST) -> bool:
    match node:
        case ast.Name(id=word):
            return word in WHOLE_NAMESPACE | {"vars", "exit", "quit", "builtins", "__builtins__", "__name__"}
        case ast.Attribute(attr=word):
            # gettext and icecream install a name among the builtins; the others run a line or leave.
            return word in {"install", "exit", "_exit", "run_line_magic", "run_cell_magic", "run_cell", "user_ns"}
        case ast.alias(name=word):
            return word in {"*", "builtins", "__main__"}
        case ast.Constant(value="__main__"):
            return True
    return False


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from _outside_functions(child)
