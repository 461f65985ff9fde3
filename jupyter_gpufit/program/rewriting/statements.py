"""Statements: loops, branches, `with` and `try` stay such, so that break, return and exceptions keep their sense."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from copy import deepcopy
from typing import TypeVar, cast

from ..reading.scopes import bound_by, is_yield, leaves, scope
from .expressions import Expressions
from .nodes import ask, assign, at, clone, do, frame, invert, load, on_path

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
            case ast.Try(body=body, handlers=handlers, orelse=orelse):
                return self._any(body, orelse) or any(map(self.stops_in, handlers)) or self._stops_at_last(node)
            case ast.Match(subject=subject, cases=cases):
                return self.suspends(subject) or self._any(*(one.body for one in cases))
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

    def stops_in(self, handler: ast.ExceptHandler) -> bool:
        """Whether the unit can be left while it handles an error. Entered again, the error's name is bound anew."""
        if not self._any(handler.body):
            return False
        bound = {name for statement in handler.body for one in scope(statement) for name in bound_by(one)}
        return handler.name is None or handler.name not in bound

    def _stops_at_last(self, node: ast.Try) -> bool:
        """Whether it can be left in its `finally`, which is twice in the code then: after an error, and after none."""
        return self.kind != "generator" and self._any(node.finalbody) and not leaves(_before_finally(node))

    def alone(self, node: S) -> S:
        """A part in which nothing is taken note of. A generator that yields there cannot be saved meanwhile."""
        if self.kind == "generator" and any(map(is_yield, scope(node))):
            changed: S = _Unresumable().visit(deepcopy(node))
            return changed
        if self.iterated and any(map(self.is_looped_over, scope(node))):
            with_those: S = _Making(self).visit(deepcopy(node))
            return with_those
        return node

    def is_looped_over(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Assign) and any(
            isinstance(one, ast.Name) and one.id in self.iterated for one in node.targets
        )

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
            case ast.Match():
                return self._match(node, into, since)
            case ast.AugAssign():
                return self._augmented(node, into, since)
            case ast.Assert():
                last: ast.stmt = clone(node, test=self.hoist(node.test, into), msg=node.msg and self.alone(node.msg))
            case ast.Assign():
                value = self.hoist(node.value, into)
                if self.is_looped_over(node):
                    value = ast.copy_location(ask("made", self.released(value, into)), node.value)
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
        iterable = self.looped_over(node.iter, into)
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
        else:
            asked = ast.Attribute(frame("program"), "pending", ast.Load())
            asked_now = ast.BoolOp(ast.And(), [asked, ask("wh", number)])
            test = ast.BoolOp(ast.Or(), [asked_now, test])
        begin = self.plain(at(node, [do(ask("it", number, ast.List([ast.Constant(0)], ast.Load())))]))
        turns = ast.Subscript(frame("its"), ast.Constant(number), ast.Load())
        turn = ast.AugAssign(ast.Subscript(turns, ast.Constant(0), ast.Store()), ast.Add(), ast.Constant(1))
        loop = clone(node, test=test, body=[*self.plain(at(node, [turn])), *body], orelse=orelse)
        run = ast.Try(at(node, [loop]), [], [], at(node, [do(ask("dn", number))]))
        return self.gate([number, otherwise], at(node, [*begin, run]))

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

    def _match(self, node: ast.Match, into: list[ast.stmt], since: int) -> list[ast.stmt]:
        """First which case it is, with the names that its pattern binds; then its block, as that of an `if`."""
        subject = self.hoist(node.subject, into)
        name = self.temporary()
        cases = [
            clone(self.alone(one), body=at(one.pattern, [assign(name, ast.Constant(number))]))
            for number, one in enumerate(node.cases)
        ]
        into += self.plain([at(node, [assign(name, ast.Constant(-1))])[0], clone(node, subject=subject, cases=cases)])
        self.used -= 1
        into += self.clear(since)
        chosen: list[ast.stmt] = []
        for number, one in reversed(list(enumerate(node.cases))):
            test = ast.Compare(load(name), [ast.Eq()], [ast.Constant(number)])
            place = one.pattern
            chosen = [ast.copy_location(ast.If(ast.copy_location(test, place), one.body, chosen), place)]
        return into + self._branch(cast(ast.If, chosen[0]), [], self.used)

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
        cleared: list[ast.stmt] = []
        with self.inside(number), self.block_that_may_fail(cleared):
            body += self._with(node, more, [], self.used) if more else self.block(node.body)
        asked = ast.copy_location(ask("cm", number, manager), item.context_expr)
        made = clone(node, items=[clone(item, context_expr=asked, optional_vars=target)], body=at(node, body))
        run = ast.Try([made], [], [], at(node, [do(ask("dc", number)), *cleared]))
        return into + self.gate([number], at(node, [run]))

    def _try(self, node: ast.Try) -> list[ast.stmt]:
        if self._stops_at_last(node):
            again = ast.copy_location(ast.Raise(None, None), node.finalbody[-1])
            handler = ast.copy_location(ast.ExceptHandler(None, None, [*node.finalbody, again]), node.finalbody[0])
            node = clone(node, body=_before_finally(node), handlers=[handler], orelse=node.finalbody, finalbody=[])
        within, otherwise = self.number(node), self.number(node) if node.orelse else None
        cleared: list[ast.stmt] = []
        with self.inside(within), self.block_that_may_fail(cleared):
            body = self.block(node.body)
        with self.inside(otherwise):
            orelse = self.block(node.orelse)
        numbers = [self.number(one) if self.stops_in(one) else None for one in node.handlers]
        if self.entering:  # the error is raised again where it was caught, for the one block that was handling it
            body = [
                ast.copy_location(ast.If(ast.BoolOp(ast.And(), [frame("r"), on_path(one)]), [_raise(one)], []), node)
                for one in numbers
                if one is not None
            ] + body
        handlers = [self._handler(one, number, cleared) for one, number in zip(node.handlers, numbers, strict=True)]
        finalbody = [self.alone(one) for one in node.finalbody]
        made = clone(node, body=body, orelse=orelse, handlers=handlers, finalbody=finalbody)
        return self.gate([within, otherwise, *numbers], [made])

    def _handler(self, node: ast.ExceptHandler, number: int | None, cleared: list[ast.stmt]) -> ast.ExceptHandler:
        """`cleared`: it may well be there to make room, as after a batch that was too large."""
        first = at(node.body[0], deepcopy(cleared))
        if number is None:
            made = self.alone(node)
            made = clone(made, body=[*first, *made.body])
        else:
            begin = self.plain(at(node, [do(ask("ex", number))]))
            with self.inside(number):
                body = self.block(node.body)
            made = clone(
                node, body=[*begin, *first, *at(node, [ast.Try(body, [], [], at(node, [do(ask("dc", number))]))])]
            )
        if not self.entering or node.type is None:  # what catches all is the last
            return made
        mine: ast.expr = ast.Tuple([], ast.Load())
        if number is not None:
            mine = ast.IfExp(on_path(number), ask("any_error"), mine)
        return clone(made, type=ast.copy_location(ast.IfExp(frame("r"), mine, node.type), node.type))


def _before_finally(node: ast.Try) -> list[ast.stmt]:
    return [clone(node, finalbody=[])] if node.handlers else node.body


def _raise(number: int) -> ast.stmt:
    return ast.Raise(ask("caught", number), None)


class _Within(ast.NodeTransformer):
    """Changes a scope, and not those in it."""

    def _skip(self, node: ast.AST) -> ast.AST:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _skip
    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _skip


class _Making(_Within):
    """Let variables that are looped over get generators that can be saved."""

    def __init__(self, form: Statements) -> None:
        self._form = form

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        return clone(node, value=self._form.made(node.value)) if self._form.is_looped_over(node) else node


class _Unresumable(_Within):
    """Let every yield say that no place is known for it."""

    def visit_Yield(self, node: ast.Yield) -> ast.AST:
        self.generic_visit(node)
        return clone(node, value=ask("un", node.value or ast.Constant(None)))

    def visit_YieldFrom(self, node: ast.YieldFrom) -> ast.AST:
        self.generic_visit(node)
        return clone(node, value=ask("un", node.value))
