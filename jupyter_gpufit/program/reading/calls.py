"""Under which names functions are called that can be left midway, read from the text alone.

A function comes by other names: as an argument, in a list, from what made or decorated it. So each name is followed to
those that it may be handed on to, whatever the scope: one too many costs a look at what is called, one too few a safe
point. `f()` is the name of what f returns.

Not covered: lambdas, and what a library hands on.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from .scopes import Definition, Loop, children, inside

# A temporary or a frame of ours between them and the user's code would change what these see.
LOOK_AT_THE_FRAME = frozenset({"super", "locals", "globals", "vars", "dir", "eval", "exec"})
_PUT_INTO = {"append", "appendleft", "add", "extend", "insert", "setdefault", "update"}
_CONTENTS = {"items", "values", "copy", "get", "pop"}
_TOGETHER = (ast.Tuple, ast.List, ast.Set, ast.IfExp, ast.BoolOp, ast.Starred, ast.NamedExpr)

_HANDING = (ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.For, ast.comprehension, ast.Call, ast.FunctionDef)

Flow = tuple[str, set[str]]  # a name, and those that it may stand for


def called(node: ast.AST) -> str | None:
    """The name of what a call calls."""
    return name_of(node.func) if isinstance(node, ast.Call) else None


def name_of(node: ast.AST) -> str | None:
    """`fit` for trainer.fit and fits["a"].fit, `steps` for steps[0], `make()` for make(3)."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=value) | ast.Starred(value=value):
            return name_of(value)
        case ast.Call(func=func):
            made = name_of(func)
            return made and f"{made}()"
    return None


def resumable_names(
    found: Iterable[Definition], trees: Iterable[ast.AST] = (), also: Iterable[str] = ()
) -> frozenset[str]:
    """The names of functions that come, themselves or through others, to a loop; `also` are those of libraries."""
    definitions, libraries = list(found), frozenset(also)
    names = set(libraries)
    flows: list[Flow] = []
    for one in definitions:
        if one.resumable and any(isinstance(node, Loop) for node in inside(one.node)):
            names |= {one.node.name, *_instances(one)}
        elif one.resumable:
            calls = {name for node in inside(one.node) if (name := called(node)) is not None}
            flows += [(name, calls) for name in (one.node.name, *_instances(one))]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    flows += [(new, {old}) for node in nodes for new, old in _renamed(node)]
    if names or flows:
        handed = _Handing(definitions)
        handing = (node for node in nodes if isinstance(node, _HANDING))
        flows += [(new, olds - libraries) for node in handing for new, olds in handed.on(node)]
    while more := {name for name, olds in flows if name not in names and not olds.isdisjoint(names)}:
        names |= more
    return frozenset(names - LOOK_AT_THE_FRAME)


def _instances(one: Definition) -> list[str]:
    """Of a class whose objects are called."""
    return [f"{one.qualname.split('.')[-2]}()"] if one.node.name == "__call__" and "." in one.qualname else []


def _renamed(node: ast.AST) -> Iterator[tuple[str, str]]:
    """`train = partial(trainer.train, 3)` and `train = trainer.train`: the new name and the old one."""
    if not isinstance(node, ast.Assign):
        return
    value = node.value
    if called(value) == "partial" and isinstance(value, ast.Call) and value.args:
        value = value.args[0]
    old = name_of(value)
    for target in node.targets:
        if old is not None and (new := name_of(target)) is not None:
            yield new, old


def carried(node: ast.AST | None) -> set[str]:
    """The names of what an expression may give, or lead to."""
    if isinstance(node, _TOGETHER):
        return set().union(*map(carried, children(node)))
    if isinstance(node, ast.Dict):
        return set().union(*map(carried, node.values))
    if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
        return carried(node.elt)
    if isinstance(node, ast.DictComp):
        return carried(node.value)
    name = None if node is None else name_of(node)
    found = set() if name is None else {name}
    if isinstance(node, ast.Call):
        found = found.union(*map(carried, node.args), *(carried(one.value) for one in node.keywords))
        if isinstance(node.func, ast.Attribute) and node.func.attr in _CONTENTS:
            found |= carried(node.func.value)
    return found


class _Handing:
    """Where each construct hands names on to."""

    def __init__(self, definitions: Iterable[Definition]) -> None:
        self._parameters: dict[str, list[list[str]]] = {}
        for one in definitions:
            args = one.node.args
            plain = [arg.arg for arg in (*args.posonlyargs, *args.args)]
            listed = plain[1:] if plain[:1] in (["self"], ["cls"]) else plain
            around = one.qualname.split(".")
            names = {one.node.name} if one.node.name != "__init__" else set(around[-2:-1])
            if around[-2:-1] == ["<locals>"]:  # what a decorator with arguments returns: it is called in its turn
                names.add(f"{around[-3]}()")
            for name in names:
                self._parameters.setdefault(name, []).append([*listed, *([args.vararg.arg] if args.vararg else [])])

    def on(self, node: ast.AST) -> Iterator[Flow]:
        match node:
            case ast.Assign(targets=targets, value=value):
                yield from _given(targets, carried(value))
            case ast.AnnAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
                yield from _given([target], carried(value))
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                yield from _given([target], carried(value))
            case ast.Call():
                yield from self._call(node)
            case ast.FunctionDef():
                yield from self._function(node)

    def _call(self, node: ast.Call) -> Iterator[Flow]:
        for keyword in node.keywords:
            if keyword.arg is not None:
                yield keyword.arg, carried(keyword.value)
        yield from self._positional(name_of(node.func), [carried(one) for one in node.args])
        if isinstance(node.func, ast.Attribute) and node.func.attr in _PUT_INTO:
            if (into := name_of(node.func.value)) is not None:
                yield into, set().union(*map(carried, node.args))

    def _positional(self, function: str | None, args: list[set[str]]) -> Iterator[Flow]:
        for parameters in self._parameters.get(function or "", ()):
            for number, olds in enumerate(args):
                if parameters:
                    yield parameters[min(number, len(parameters) - 1)], olds

    def _function(self, node: ast.FunctionDef) -> Iterator[Flow]:
        args = node.args
        plain = (*args.posonlyargs, *args.args)
        defaults = [*zip(reversed(plain), reversed(args.defaults), strict=False)]
        defaults += [(arg, one) for arg, one in zip(args.kwonlyargs, args.kw_defaults, strict=True) if one]
        yield from ((arg.arg, carried(default)) for arg, default in defaults)
        for one in inside(node):
            if isinstance(one, ast.Return | ast.Yield):
                given = carried(one.value)
                yield f"{node.name}()", given
                yield f"{node.name}()()", {f"{name}()" for name in given}
        for decorator in node.decorator_list:
            if (name := name_of(decorator)) is not None:
                yield from self._positional(name, [{node.name}])
                yield node.name, {f"{name}()"}


def _given(targets: Iterable[ast.expr], olds: set[str]) -> Iterator[Flow]:
    for target in targets:
        if isinstance(target, ast.Tuple | ast.List):
            yield from _given(target.elts, olds)
        elif (name := name_of(target)) is not None:
            yield name, olds
