"""Statements: loops, branches, `with` and `try` stay such, so that break, return and exceptions keep their sense."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from copy import deepcopy
from typing import TypeVar

from .expressions import Expressions
from .nodes import ask, assign, at, clone, do, frame, invert, load
from .scopes import is_yield, scope

S = TypeVar("S", bound=ast.AST)


class Statements(Expressions):
    def block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        run: list[ast.stmt] = []
        for one in statements:
            if self.stops(one):
                made += self.plain(run)
                run = []
                made += at(one, self.statement(one))
            else:
                run.append(self.alone(one))
        return made + self.plain(run)

    def stops(self, node: ast.stmt) -> bool:
        """Whether the unit can be left inside this statement."""
        found = self._stopping.get(node)
        if found is None:
            found = self._stopping[node] = self._stops(node)
        return found

    def _stops(self, node: ast.stmt) -> bool:
        match node:
            case ast.For(iter=value, body=body, orelse=orelse):
                return self.kind != "generator" or self.suspends(value) or self._any(body, orelse)
            case ast.While(body=body, orelse=orelse):
                return self.kind != "generator" or self._any(body, orelse)
            case ast.If(test=test, body=body, orelse=orelse):
                return self.suspends(test) or self._any(body, orelse)
            case ast.With(items=items, body=body):
                return any(self.suspends(one.context_expr) for one in items) or self._any(body)
            case ast.Try(body=body, orelse=orelse):
                return self._any(body, orelse)
            case ast.Expr(value=value) | ast.Assign(value=value) | ast.AnnAssign(value=value) | ast.Return(value=value):
                return self.suspends(value)
            case ast.AugAssign(target=target, value=value):
                sliced = any(isinstance(part, ast.Slice) for part in ast.walk(target))
                return self.suspends(value) and not sliced and not self.suspends(target)
            case ast.Assert(test=test):
                return not sys.flags.optimize and self.suspends(test)
        return False

    def _any(self, *blocks: Sequence[ast.stmt]) -> bool:
        return any(self.stops(one) for block in blocks for one in block)

    def alone(self, node: S) -> S:
        """A part in which nothing is taken note of. A generator that yields there cannot be saved meanwhile."""
        if self.kind == "generator" and any(map(is_yield, scope(node))):
            changed: S = _Unresumable().visit(deepcopy(node))
            return changed
        return node

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        since = self.used
        into: list[ast.stmt] = []
        match node:
            case ast.For():
                return self._for(node, into, since)
            case ast.While():
                return self._while(node)
            case ast.If():
                return self._branch(node, into, since)
            case ast.With():
                return self._with(node, node.items, into, since)
            case ast.Try():
                return self._try(node)
            case ast.AugAssign():
                return self._augmented(node, into, since)
            case ast.Assert():
                last: ast.stmt = clone(node, test=self.hoist(node.test, into), msg=node.msg and self.alone(node.msg))
            case ast.Assign():
                value = self.hoist(node.value, into)
                last = clone(node, value=value, targets=[self.alone(one) for one in node.targets])
            case _:
                assert isinstance(node, ast.Expr | ast.AnnAssign | ast.Return) and node.value is not None
                last = clone(node, value=self.hoist(node.value, into))
        if not (isinstance(last, ast.Expr) and isinstance(last.value, ast.Name)):
            into += self.plain([last])
        return into + self.clear(since)

    def _augmented(self, node: ast.AugAssign, into: list[ast.stmt], since: int) -> list[ast.stmt]:
        """The target is read before the value is computed, as Python does."""
        target: ast.expr = node.target
        if isinstance(target, ast.Attribute):
            target = clone(target, value=self.keep(target.value, node, into))
        elif isinstance(target, ast.Subscript):
            owner = self.keep(target.value, node, into)
            target = clone(target, value=owner, slice=self.keep(target.slice, node, into))
        read = ast.Name(target.id, ast.Load()) if isinstance(target, ast.Name) else clone(target, ctx=ast.Load())
        old = self.keep(ast.copy_location(read, node), node, into)
        assert isinstance(old, ast.Name)
        value = self.hoist(node.value, into)
        changed = clone(node, target=ast.Name(old.id, ast.Store()), value=value)
        into += self.plain([changed, ast.copy_location(ast.Assign([target], load(old.id)), node)])
        return into + self.clear(since)

    # Loops -----------------------------------------------------------------------------------------------------------

    def _for(self, node: ast.For, into: list[ast.stmt], since: int) -> list[ast.stmt]:
        iterable = self.hoist(node.iter, into)
        number = self.number(node)
        start = self.begin(number, iterable)
        within, otherwise = self._numbers(number, node)
        begin = self.plain(at(node, [do(start)])) + self.clear(since)
        with self.inside(within):
            body = self.block(node.body)
        with self.inside(otherwise):
            orelse = self.block(node.orelse)
        target = self.alone(node.target)
        if self.entering:
            take = at(node, [ast.Assign([target], ask("take"))])
            loop: ast.stmt = ast.While(ask("nx", number), self.plain(take) + body, orelse)
        else:
            loop = clone(node, target=target, iter=ask("loop", number), body=body, orelse=orelse)
        run = ast.Try(at(node, [loop]), [], [], at(node, [do(ask("dn", number))]))
        return into + self.gate([number, otherwise], at(node, [*begin, run]))

    def _while(self, node: ast.While) -> list[ast.stmt]:
        number = self.number(node)
        within, otherwise = self._numbers(number, node)
        with self.inside(within):
            body = self.block(node.body)
        with self.inside(otherwise):
            orelse = self.block(node.orelse)
        test: ast.expr = self.alone(node.test)
        if self.entering:
            test = ast.BoolOp(ast.And(), [invert(frame("r")), test])
            test = ast.BoolOp(ast.Or(), [ask("wh", number), test])
        elif self.kind != "generator":
            asked = ast.Attribute(frame("program"), "pending", ast.Load())
            asked_now = ast.BoolOp(ast.And(), [asked, ask("wh", number)])
            test = ast.BoolOp(ast.Or(), [asked_now, test])
        return self.gate([number, otherwise], [clone(node, test=test, body=body, orelse=orelse)])

    def _numbers(self, number: int, node: ast.For | ast.While) -> tuple[int, int | None]:
        return number, self.number(node) if node.orelse else None

    # Other blocks ----------------------------------------------------------------------------------------------------

    def _branch(self, node: ast.If, into: list[ast.stmt], since: int) -> list[ast.stmt]:
        test = self.hoist(node.test, into)
        if into:
            name = self.temporary()
            into += self.plain(at(node, [assign(name, invert(invert(test)))]))
            self.used -= 1  # once it is tested it may be written over
            into += self.clear(since)
            test = load(name)
        yes, no = self.number(node), self.number(node) if node.orelse else None
        with self.inside(yes):
            body = self.block(node.body)
        with self.inside(no):
            orelse = self.block(node.orelse)
        made = clone(node, test=self.unless_entering(test, yes), body=body, orelse=orelse)
        return into + self.gate([yes, no], [made])

    def _with(self, node: ast.With, items: Sequence[ast.withitem], into: list[ast.stmt], since: int) -> list[ast.stmt]:
        item, *more = items
        manager = self.hoist(item.context_expr, into)
        number = self.number(node)
        target = item.optional_vars and self.alone(item.optional_vars)
        body: list[ast.stmt] = []
        if self.entering and target is not None:
            # A temporary of its own: it is assigned on the way, too, when the target must keep what it holds.
            manager = ast.IfExp(frame("r"), ast.Constant(None), manager)
            name = self.temporary()
            body += self.plain(at(node, [ast.Assign([target], load(name))]))
            target = ast.Name(name, ast.Store())
            body += at(node, [assign(name, ast.Constant(None))])
            self.used -= 1
        elif self.entering:
            manager = ast.IfExp(frame("r"), ast.Constant(None), manager)
        body += self.clear(since)
        with self.inside(number):
            body += self._with(node, more, [], self.used) if more else self.block(node.body)
        asked = ast.copy_location(ask("cm", number, manager), item.context_expr)
        made = clone(node, items=[clone(item, context_expr=asked, optional_vars=target)], body=at(node, body))
        run = ast.Try([made], [], [], at(node, [do(ask("dc", number))]))
        return into + self.gate([number], at(node, [run]))

    def _try(self, node: ast.Try) -> list[ast.stmt]:
        within, otherwise = self.number(node), self.number(node) if node.orelse else None
        with self.inside(within):
            body = self.block(node.body)
        with self.inside(otherwise):
            orelse = self.block(node.orelse)
        handlers = [self.alone(one) for one in node.handlers]
        finalbody = [self.alone(one) for one in node.finalbody]
        made = clone(node, body=body, orelse=orelse, handlers=handlers, finalbody=finalbody)
        return self.gate([within, otherwise], [made])


class _Unresumable(ast.NodeTransformer):
    """Let every yield say that no place is known for it."""

    def _skip(self, node: ast.AST) -> ast.AST:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _skip
    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _skip

    def visit_Yield(self, node: ast.Yield) -> ast.AST:
        self.generic_visit(node)
        return clone(node, value=ask("un", node.value or ast.Constant(None)))

    def visit_YieldFrom(self, node: ast.YieldFrom) -> ast.AST:
        self.generic_visit(node)
        return clone(node, value=ask("un", node.value))
