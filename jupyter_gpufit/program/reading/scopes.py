"""Reading a tree scope by scope: which functions it defines, and what they bind."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

Loop: TypeAlias = ast.For | ast.While

_OTHER_SCOPES = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, eq=False)
class Definition:
    """A `def` somewhere in a text, or a lambda that calls something, read as one."""

    node: ast.FunctionDef
    qualname: str
    owner: str | None  # the class whose private names its code may use
    top: int  # the statement of the text that it is in
    generator: bool
    written: ast.Lambda | None = None  # as which it is written, if it is no `def`

    @property
    def key(self) -> tuple[str, int]:
        """What its code object is found by, whoever compiled it."""
        return self.qualname, min([self.node.lineno, *(one.lineno for one in self.node.decorator_list)])

    @property
    def resumable(self) -> bool:
        """Whether it may be left and entered midway: most dunders belong to Python."""
        name = self.node.name
        dunder = name.startswith("__") and name.endswith("__") and name != "__call__" and not self.is_init
        return not self.generator and not dunder

    @property
    def is_init(self) -> bool:
        """It is left where the class is the user's: see running/constructors.py."""
        return self.node.name == "__init__"

    @property
    def is_forward(self) -> bool:
        """It belongs to torch, and is left where it can be no layer's: see running/modules.py."""
        return self.node.name == "forward"


def definitions(tree: ast.Module) -> list[Definition]:
    found: list[Definition] = []
    for number, statement in enumerate(tree.body):
        found += _definitions(statement, "", None, number)
    there = Counter(one.key for one in found if one.written)  # of two in one line nobody can tell which is which
    return [one for one in found if not one.written or (there[one.key] == 1 and _calls(one.written))]


def _definitions(node: ast.AST, prefix: str, owner: str | None, top: int) -> Iterator[Definition]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        qualname = prefix + node.name
        if isinstance(node, ast.FunctionDef) and not getattr(node, "type_params", None):
            yield Definition(node, qualname, owner, top, any(map(is_yield, inside(node))))
        if isinstance(node, ast.ClassDef):
            prefix, owner = f"{qualname}.", node.name
        else:
            prefix = f"{qualname}.<locals>."
    elif isinstance(node, ast.expr):  # no statement is in there
        for one in scope(node):
            if isinstance(one, ast.Lambda) and not any(map(is_yield, ast.walk(one))):
                yield Definition(_as_def(one), f"{prefix}<lambda>", owner, top, False, one)
        return
    for child in children(node):
        yield from _definitions(child, prefix, owner, top)


def _as_def(one: ast.Lambda) -> ast.FunctionDef:
    body = ast.copy_location(ast.Return(one.body), one.body)
    made = ast.FunctionDef("<lambda>", one.args, [body], [], None, None)
    if sys.version_info >= (3, 12):
        made.type_params = []
    return ast.copy_location(made, one)


def _calls(one: ast.Lambda) -> bool:
    return any(isinstance(node, ast.Call) for node in ast.walk(one.body))


def scope(node: ast.AST) -> Iterator[ast.AST]:
    """The node and what is below it, without the insides of other scopes."""
    todo = [node]
    while todo:
        one = todo.pop()
        yield one
        if not isinstance(one, _OTHER_SCOPES):
            todo += children(one)


def children(node: ast.AST) -> list[ast.AST]:
    """As ast.iter_child_nodes, and three times as fast."""
    found: list[ast.AST] = []
    for value in map(vars(node).get, node._fields):
        if isinstance(value, ast.AST):
            if value._fields:  # Load() and the like have none
                found.append(value)
        elif type(value) is list:
            found += [one for one in value if isinstance(one, ast.AST)]
    return found


def leaves(statements: Iterable[ast.stmt]) -> bool:
    """Whether return, break or continue leads out of them."""
    todo: list[tuple[ast.AST, bool]] = [(one, False) for one in statements]
    while todo:
        node, is_in_loop = todo.pop()
        if isinstance(node, ast.Return) or (isinstance(node, ast.Break | ast.Continue) and not is_in_loop):
            return True
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            todo += [(one, True) for one in node.body] + [(one, is_in_loop) for one in node.orelse]
        elif not isinstance(node, _OTHER_SCOPES):
            todo += [(one, is_in_loop) for one in children(node)]
    return False


def inside(function: ast.FunctionDef) -> Iterator[ast.AST]:
    for statement in function.body:
        yield from scope(statement)


def iterated(body: Iterable[ast.stmt]) -> frozenset[str]:
    """The variables of a scope that its loops, `yield from` and next() take values of."""
    found: set[str] = set()
    for node in (node for statement in body for node in scope(statement)):
        match node:
            case (
                ast.For(iter=value) | ast.YieldFrom(value=value) | ast.Call(func=ast.Name(id="next"), args=[value, *_])
            ):
                found.update(one.id for one in scope(value) if isinstance(one, ast.Name))
    return frozenset(found)


def last_set(body: Iterable[ast.stmt], name: str) -> int | None:
    """The last line of a scope in which a variable gets a value."""
    nodes = (node for statement in body for node in scope(statement) if name in bound_by(node))
    return max((getattr(node, "lineno", 0) for node in nodes), default=None)


def is_yield(node: ast.AST) -> bool:
    return isinstance(node, ast.Yield | ast.YieldFrom)


def is_async(tree: ast.Module) -> bool:
    """Whether the cell itself awaits something."""
    waiting = (ast.Await, ast.AsyncFor, ast.AsyncWith)
    for statement in tree.body:
        for node in scope(statement):
            if isinstance(node, waiting):
                return True
            if isinstance(node, _COMPREHENSIONS) and any(isinstance(one, waiting) for one in ast.walk(node)):
                return True
            if isinstance(node, _COMPREHENSIONS) and any(part.is_async for part in node.generators):
                return True
    return False


def bound_names(function: ast.FunctionDef) -> list[str]:
    """The function's own variables, in order of appearance; not those it declares global or nonlocal."""
    args = function.args
    names = [one.arg for one in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg) if one]
    elsewhere: set[str] = set()
    for node in inside(function):
        if isinstance(node, ast.Global | ast.Nonlocal):
            elsewhere.update(node.names)
        names += bound_by(node)
    return [name for name in dict.fromkeys(names) if name not in elsewhere]


def bound_by(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            for alias in aliases:
                yield alias.asname or alias.name.partition(".")[0]
    if isinstance(node, (*_OTHER_SCOPES,)):
        yield from _walrus(node)


def _walrus(node: ast.AST) -> Iterator[str]:
    """What a comprehension, a default or a decorator binds in the scope around it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(node, ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            in_here = isinstance(child, ast.arguments) or child in getattr(node, "decorator_list", ())
            in_here = in_here or (isinstance(node, ast.ClassDef) and isinstance(child, ast.expr | ast.keyword))
            if not in_here:
                continue
        if isinstance(child, ast.NamedExpr):
            yield child.target.id
        yield from _walrus(child)


def mangled(name: str, owner: str | None) -> str:
    """A private name as it stands in the code of a class."""
    owner = (owner or "").lstrip("_")
    return f"_{owner}{name}" if owner and name.startswith("__") and not name.endswith("__") else name
