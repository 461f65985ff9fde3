"""A cell, a function or a generator in its two forms; see form.py."""

from __future__ import annotations

import ast
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..reading.calls import Names, is_run, is_to_the_shell
from ..reading.scopes import Definition, Loop, bound_names, inside, iterated, mangled, scope
from ..values import ARRIVED, FRAME, INNER, MAKER, OURS, PROGRAM, SAVED, Kind, Unit
from .nodes import ask, assign, at, clone, load
from .statements import Statements


@dataclass(frozen=True)
class Shared:
    """The variables that a function has in common with others."""

    own: tuple[str, ...] = ()  # its own, which functions inside it use
    around: tuple[str, ...] = ()  # those of functions around it, which it uses


# The cell ------------------------------------------------------------------------------------------------------------


def cell_form(tree: ast.Module, filename: str, names: Names, *, entering: bool) -> tuple[ast.Module, Unit]:
    """The cell; its last expression stays its last, for it is displayed."""
    form = Statements("cell", names, entering=entering)
    last = tree.body[-1]
    body = tree.body[:-1] if isinstance(last, ast.Expr) else tree.body
    form.iterated = iterated(tree.body)
    first = [one for one in body if _is_future(one)]
    made = form.block([one for one in body if not _is_future(one)])
    if isinstance(last, ast.Expr):
        value = form.hoist(last.value, made)
        made.append(clone(last, value=value))  # unguarded: whatever place was gone to is behind it
    unit = Unit(f"{filename}:<cell>", "cell", "the cell", filename, form.paths, form.lines)
    begin: list[ast.stmt] = [assign(FRAME, _program("enter_cell", ast.Constant(unit.uid)))]
    place = tree.body[0]
    return _placed(clone(tree, body=[*first, *at(place, begin), *at(place, made)])), unit


def cell_stops(tree: ast.Module, names: Names) -> bool:
    """Whether there is any place at which the cell could be left, rather than a part of it that `%time` runs."""
    form = Statements("cell", names, entering=False)
    nodes = [node for statement in tree.body for node in scope(statement)]
    others = sum(map(is_to_the_shell, nodes)) - sum(map(is_run, nodes))
    if others and not any(isinstance(node, Loop) for node in nodes):
        return False
    return any(map(form.stops, tree.body))


def text_form(
    tree: ast.Module, filename: str, names: Names, uid: str, depth: int, *, entering: bool
) -> tuple[ast.Module, Unit]:
    """The text of a module that runs as deep inside of the cell."""
    form = Statements("text", names, entering=entering)
    form.iterated = iterated(tree.body)
    first = [*_docstring(tree), *(one for one in tree.body if _is_future(one))]
    made = form.block([one for one in tree.body if one not in first])
    name = Path(filename).name if not filename.startswith("<") else "a text"
    unit = Unit(uid, "text", name, filename, form.paths, form.lines, depth=depth)
    begin: list[ast.stmt] = [assign(FRAME, _program("enter", ast.Constant(uid)))]
    if entering:
        begin = [assign(FRAME, _program("reenter", load(ARRIVED))), ast.Delete([ast.Name(ARRIVED, ast.Del())])]
    place, named = tree.body[0], _Named(unit)
    body = [named.visit(one) for one in (*at(place, begin), *at(place, made))]
    return _placed(clone(tree, body=[*first, *body])), unit


def text_stops(tree: ast.Module, names: Names) -> bool:
    """Whether there is any place at which a text could be left while it runs."""
    form = Statements("text", names, entering=False)
    return any(map(form.stops, tree.body))


class _Named(ast.NodeTransformer):
    """The names of ours with the mark of a text; those in functions are their own."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit

    def visit_Name(self, node: ast.Name) -> ast.AST:
        ours = node.id.startswith(OURS) and node.id != ARRIVED
        return clone(node, id=self._unit.named(node.id)) if ours else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


# Functions -----------------------------------------------------------------------------------------------------------


def function_stops(one: Definition, names: Names, *, is_librarys: bool = False) -> bool:
    """Whether there is any place at which the function could be left.

    One of a library that sets its module's variables makes a state ready, of which no checkpoint has the rest.
    """
    if is_librarys and any(isinstance(node, ast.Global) for node in inside(one.node)):
        return False
    form = Statements("function", names, entering=False, is_librarys=is_librarys)
    return any(map(form.stops, one.node.body))


def running_form(
    one: Definition, uid: str, filename: str, names: Names, shared: Shared, *, is_librarys: bool = False
) -> tuple[ast.FunctionDef, Unit]:
    form, body = _form(one, names, shared, entering=False, is_librarys=is_librarys)
    begin: list[ast.stmt] = [assign(FRAME, _program("enter", ast.Constant(uid)))]
    # A generator is made anew from the cells around it, too; a function comes with its own.
    if cells := (*shared.own, *(shared.around if one.generator else ())):
        shown = ast.Tuple([load(name) for name in cells], ast.Load())
        begin.append(ast.Assign([ast.Attribute(load(FRAME), "cells", ast.Store())], ast.Lambda(_nothing(), shown)))
    made = clone(one.node, body=[*_docstring(one.node), *at(one.node.body[0], begin), *at(one.node, body)])
    return _placed(made), _unit(one, uid, filename, form, shared)


def entering_form(
    one: Definition, uid: str, filename: str, names: Names, shared: Shared, *, is_librarys: bool = False
) -> tuple[ast.FunctionDef, Unit]:
    """The function without its parameters, inside another one whose variables are its cells.

    A running activation cannot be given cells, but a function can: so the variables that it shares with closures
    become variables around it, and the closures that were saved with it share them still.
    """
    form, body = _form(one, names, shared, entering=True, is_librarys=is_librarys)
    unit = _unit(one, uid, filename, form, shared)
    begin: list[ast.stmt] = [ast.Nonlocal(list(shared.own))] if shared.own else []
    begin.append(assign(FRAME, _program("reenter", load(ARRIVED))))
    begin.append(assign(SAVED, ask("saved")))
    for name in (*unit.locals, *form.temporaries):
        there = ast.Compare(ast.Constant(name), [ast.In()], [load(SAVED)])
        value = ast.Subscript(load(SAVED), ast.Constant(name), ast.Load())
        begin.append(ast.If(there, [assign(name, value)], []))
    begin.append(ast.Delete([ast.Name(SAVED, ast.Del()), ast.Name(ARRIVED, ast.Del())]))
    inner = clone(
        one.node,
        name=INNER,  # under its own it would be a variable of the function around it
        args=_nothing(ARRIVED),
        body=[*_docstring(one.node), *at(one.node, begin), *at(one.node, body)],
    )
    args = _nothing(*shared.own)
    # Its own name stays one of the scope around it: the function itself may use it.
    args.kwonlyargs.append(ast.arg(SAVED))
    args.kw_defaults.append(ast.NamedExpr(ast.Name(one.node.name, ast.Store()), ast.Constant(None)))
    around = clone(one.node, name=MAKER, args=args, body=[inner], decorator_list=[], returns=None)
    return _placed(around), unit


def _nothing(*names: str) -> ast.arguments:
    return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])


def _form(
    one: Definition, names: Names, shared: Shared, *, entering: bool, is_librarys: bool
) -> tuple[Statements, list[ast.stmt]]:
    kind: Kind = "generator" if one.generator else "function"
    form = Statements(kind, names, entering=entering, is_librarys=is_librarys)
    body = one.node.body[len(_docstring(one.node)) :]
    changes = _Changes(entering, frozenset(shared.own), one.node.args)
    if any(map(changes.needed, inside(one.node))):
        body = [changes.visit(statement) for statement in deepcopy(body)]
    form.iterated = iterated(body)
    return form, form.block(body) or [ast.Pass()]


def variables(one: Definition) -> list[str]:
    """A function's own, as they are called in its code: a private one with the name of its class."""
    return [mangled(name, one.owner) for name in bound_names(one.node)]


def _unit(one: Definition, uid: str, filename: str, form: Statements, shared: Shared) -> Unit:
    names = tuple(name for name in variables(one) if name not in shared.own)
    kind: Kind = "generator" if one.generator else "function"
    return Unit(uid, kind, f"{one.qualname}()", filename, form.paths, form.lines, names, form.spots)


def _docstring(node: ast.FunctionDef | ast.Module) -> list[ast.stmt]:
    return node.body[: ast.get_docstring(node, clean=False) is not None]


class _Changes(ast.NodeTransformer):
    """What would not mean the same in a rewritten function."""

    def __init__(self, entering: bool, cells: frozenset[str], args: ast.arguments) -> None:
        self.entering, self.cells = entering, cells
        self.first = next((one.arg for one in (*args.posonlyargs, *args.args)), None)

    def needed(self, node: ast.AST) -> bool:
        if isinstance(node, ast.AnnAssign):
            return self.entering and isinstance(node.target, ast.Name) and node.target.id in self.cells
        return self._bare(node, "locals", "vars", "dir") or self._is_super(node)

    def _bare(self, node: ast.AST, *names: str) -> bool:
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in names
            and not (node.args or node.keywords)
        )

    def _is_super(self, node: ast.AST) -> bool:
        return self.entering and self.first is not None and self._bare(node, "super")

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if self._bare(node, "locals", "vars", "dir"):  # without what is ours
            return ast.copy_location(_program("seen", node), node)
        if self._is_super(node):  # which looks at the first parameter of its frame
            assert self.first is not None
            return clone(node, args=[load("__class__"), load(self.first)])
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if not self.needed(node):  # a variable of the function around cannot be annotated
            return node
        return ast.copy_location(ast.Pass() if node.value is None else ast.Assign([node.target], node.value), node)

    def _skip(self, node: ast.AST) -> ast.AST:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _skip
    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _skip


def _program(method: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Attribute(load(PROGRAM), method, ast.Load()), list(args), [])


def _placed(node: Any) -> Any:
    return ast.fix_missing_locations(node)
