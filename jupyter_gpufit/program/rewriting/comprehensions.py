"""Comprehensions as the loops that they are short for: `[train(fold) for fold in folds]` can be left at each fold.

Their variables become temporaries, so that those of the same names around them keep what they hold. One that keeps them
for later, as `[lambda: x for x in xs]` does, stays as it is.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import TypeAlias

from ..values import ITEM
from .nodes import at, clone

Comprehension: TypeAlias = ast.ListComp | ast.SetComp | ast.DictComp
# Of Python's own, which go over all of what they are given before they return.
_TAKE_ALL = frozenset({"dict", "frozenset", "list", "max", "min", "set", "sorted", "sum", "tuple"})
_LATER = (ast.Lambda, ast.GeneratorExp)
_LOOK_AROUND = frozenset({"locals", "vars", "dir", "super", "__class__"})


def at_once(node: ast.Call, plain: frozenset[str]) -> ast.Call:
    """`sum(step(x) for x in xs)` as `sum([step(x) for x in xs])`, and `list(map(train, seeds))` like it."""
    if not (isinstance(node.func, ast.Name) and node.func.id in _TAKE_ALL & plain and node.args):
        return node
    first, *rest = node.args
    each = first if isinstance(first, ast.GeneratorExp) else _mapped(first, plain)
    if each is None:
        return node
    return clone(node, args=[ast.copy_location(ast.ListComp(each.elt, each.generators), first), *rest])


def _mapped(node: ast.expr, plain: frozenset[str]) -> ast.GeneratorExp | None:
    """`map(train, seeds)` as `(train(seed) for seed in seeds)`."""
    match node:
        case ast.Call(ast.Name("map"), [ast.Name() as function, seeds], []) if "map" in plain:
            if isinstance(seeds, ast.Starred):
                return None
            item = ast.copy_location(ast.Name(ITEM, ast.Store()), seeds)
            call = ast.copy_location(ast.Call(function, [clone(item, ctx=ast.Load())], []), node)
            return ast.GeneratorExp(call, [ast.comprehension(item, seeds, [], 0)])
    return None


def repeats(node: Comprehension, is_place: Callable[[ast.AST], bool]) -> bool:
    """Whether it does, for each item, what can be left; a method of the item itself (`word.lower()`) mostly cannot."""
    own = set(targets(node))
    nodes = [one for part in _each_time(node) for one in ast.walk(part)]
    if any(one.is_async for one in node.generators) or any(isinstance(one, ast.Await) for one in nodes):
        return False
    if not all(map(_is_plain_target, (one.target for one in node.generators))):
        return False
    if any(isinstance(one, ast.Name) and one.id in _LOOK_AROUND for one in nodes):
        return False
    later = [one for one in nodes if isinstance(one, _LATER)]
    if any(isinstance(one, ast.Name) and one.id in own for held in later for one in ast.walk(held)):
        return False
    unseen = {id(one) for held in later for one in ast.walk(held)}
    return any(is_place(one) and _root(one) not in own for one in nodes if id(one) not in unseen)


def as_loops(node: Comprehension, made: str, names: Mapping[str, str]) -> tuple[ast.expr, ast.stmt]:
    """What `made` is to be at first, and the loops that fill it; `names`: what its own variables become."""
    if isinstance(node, ast.DictComp):
        empty: ast.expr = ast.Dict([], [])
        item: ast.expr = ast.Dict([_renamed(node.key, names)], [_renamed(node.value, names)])
        operation: ast.operator = ast.BitOr()
    elif isinstance(node, ast.SetComp):
        empty = ast.Set([ast.Starred(ast.Tuple([], ast.Load()), ast.Load())])
        item, operation = ast.Set([_renamed(node.elt, names)]), ast.BitOr()
    else:
        empty = ast.List([], ast.Load())
        item, operation = ast.List([_renamed(node.elt, names)], ast.Load()), ast.Add()
    place = node.key if isinstance(node, ast.DictComp) else node.elt
    item = ast.copy_location(item, place)
    body: list[ast.stmt] = at(place, [ast.AugAssign(ast.Name(made, ast.Store()), operation, item)])
    for number, one in reversed(list(enumerate(node.generators))):
        for test in reversed(one.ifs):
            body = at(test, [ast.If(_renamed(test, names), body, [])])
        over = one.iter if number == 0 else _renamed(one.iter, names)
        body = at(one.target, [ast.For(_renamed(one.target, names), over, body, [])])
    return ast.copy_location(empty, node), body[0]


def targets(node: Comprehension) -> list[str]:
    """The names of its own variables."""
    found = [one for part in node.generators for one in ast.walk(part.target)]
    return list(dict.fromkeys(one.id for one in found if isinstance(one, ast.Name)))


def _is_plain_target(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple | ast.List):
        return all(map(_is_plain_target, node.elts))
    return isinstance(node.value if isinstance(node, ast.Starred) else node, ast.Name)


def _each_time(node: Comprehension) -> Iterator[ast.expr]:
    yield from (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
    for number, one in enumerate(node.generators):
        yield from one.ifs
        if number:  # the first is gone over once, and asked for outside
            yield one.iter


def _root(node: ast.AST) -> str | None:
    """The name that a method's call begins with."""
    found: ast.AST = node
    while isinstance(found, ast.Call | ast.Attribute):
        if isinstance(found, ast.Call) and not isinstance(found.func, ast.Attribute):
            return None
        found = found.func if isinstance(found, ast.Call) else found.value
    return found.id if isinstance(found, ast.Name) else None


def _renamed(node: ast.expr, names: Mapping[str, str]) -> ast.expr:
    made: ast.expr = _Renamed(names).visit(deepcopy(node))
    return made


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in self._names:
            return node
        return ast.copy_location(ast.Name(self._names[node.id], node.ctx), node)

    def _comprehension(self, node: Comprehension) -> ast.AST:
        """One inside, whose own variables hide those of the same names; what it goes over is not its own yet."""
        inner = _Renamed({name: new for name, new in self._names.items() if name not in set(targets(node))})
        for number, one in enumerate(node.generators):
            one.iter = (inner if number else self).visit(one.iter)
            one.ifs = list(map(inner.visit, one.ifs))
        if isinstance(node, ast.DictComp):
            node.key, node.value = inner.visit(node.key), inner.visit(node.value)
        else:
            node.elt = inner.visit(node.elt)
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = _comprehension
