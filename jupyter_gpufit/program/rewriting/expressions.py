"""Expressions: what is called or yielded in their midst is taken out in front of them, in the order of evaluation.

What stands to the left of such a call has been evaluated by then; it waits in a temporary, which can be saved.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, cast

from ..reading.calls import LOOK_AT_THE_FRAME, leads_on
from ..reading.scopes import children, is_yield
from ..values import FRAME, TEMPORARY
from .comprehensions import Comprehension, as_loops, at_once, repeats, targets
from .form import Form
from .nodes import ask, assign, at, clone, do, frame, invert, load

_OPAQUE = (ast.Lambda, ast.GeneratorExp)


class Expressions(Form):
    def block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        raise NotImplementedError

    def suspends(self, node: ast.AST | None) -> bool:
        """Whether an expression comes to a place at which the unit can be left."""
        if node is None or isinstance(node, _OPAQUE) or type(node).__name__ in ("TemplateStr", "Await"):
            return False
        found = self._suspending.get(node)
        if found is None:
            found = self._suspending[node] = self._suspends(node)
        return found

    def _suspends(self, node: ast.AST) -> bool:
        if isinstance(node, Comprehension):
            return self._opens() and repeats(node, self.is_place)
        return self.is_place(node) or any(map(self.suspends, children(self._at_once(node))))

    def _opens(self) -> bool:
        """Whether comprehensions may become loops: a library's many small ones gain nothing by it."""
        return self.kind != "generator" and not self.is_librarys

    def _at_once(self, node: ast.AST) -> ast.AST:
        if not (isinstance(node, ast.Call) and self._opens()):
            return node
        if node not in self._all_at_once:
            self._all_at_once[node] = at_once(node, self.names.plain)
        return self._all_at_once[node]

    def is_place(self, node: ast.AST) -> bool:
        if self.kind == "generator":
            return is_yield(node)
        return leads_on(node, self.names)

    def hoist(self, node: ast.expr, into: list[ast.stmt], *, later: bool = False) -> ast.expr:
        """The expression without such places; `later` if something that is evaluated after it has one."""
        if not self.suspends(node):
            return self._settled(node, into) if later else node
        node = cast(ast.expr, self._at_once(node))
        if isinstance(node, Comprehension):
            return self._comprehension(node, into)
        if isinstance(node, ast.BoolOp):
            return self._bool(node, into)
        if isinstance(node, ast.IfExp):
            return self._choice(node, into)
        if isinstance(node, ast.Compare) and any(map(self.suspends, node.comparators[1:])):
            return self._chain(node, into)
        if isinstance(node, ast.Yield):
            return self._yield(node, into)
        if isinstance(node, ast.YieldFrom):
            return self._yield_from(node, into)
        whole = self._composed(node, into)
        if self.is_place(node):
            assert isinstance(whole, ast.Call | ast.Attribute)
            return self._call(whole, into) if isinstance(whole, ast.Call) else self._got(whole, into)
        return self._settled(whole, into) if later else whole

    def _settled(self, node: ast.expr, into: list[ast.stmt]) -> ast.expr:
        """Evaluate now what will be used later."""
        if isinstance(node, ast.Constant):
            return node
        if isinstance(node, ast.Slice):  # no value by itself
            parts = {
                name: self._settled(part, into)
                for name in ("lower", "upper", "step")
                if (part := getattr(node, name)) is not None
            }
            return clone(node, **parts)
        if isinstance(node, ast.Starred):
            return clone(node, value=self.keep(ast.List([node], ast.Load()), node, into))
        if isinstance(node, ast.FormattedValue):  # it is formatted in its turn
            text = self.keep(ast.JoinedStr([node]), node, into)
            return clone(node, value=text, conversion=-1, format_spec=None)
        return self.keep(self._new(node), node, into)

    def _new(self, value: ast.expr) -> ast.expr:
        """What a call gives and a temporary will hold, where a loop goes over it: exchanged before that holds it."""
        return (
            ast.copy_location(ask("made", value), value) if self.going_over and isinstance(value, ast.Call) else value
        )

    def looped_over(self, node: ast.expr, into: list[ast.stmt]) -> ast.expr:
        self.going_over = True
        value = self.hoist(node, into)
        self.going_over = False
        return self.released(value, into)

    def _composed(self, node: ast.expr, into: list[ast.stmt]) -> ast.expr:
        """The same kind of expression, of parts that are done with."""
        if isinstance(node, ast.Call):
            values = [node.func, *node.args, *(one.value for one in node.keywords)]
            unpacked = [False] * (1 + len(node.args)) + [one.arg is None for one in node.keywords]
            func, *rest = self._parts(values, into, unpacked)
            args, given = rest[: len(node.args)], rest[len(node.args) :]
            keywords = [clone(old, value=new) for old, new in zip(node.keywords, given, strict=True)]
            return clone(node, func=func, args=args, keywords=keywords)
        if isinstance(node, ast.Dict):
            pairs = [one for key, value in zip(node.keys, node.values, strict=True) for one in (key, value)]
            unpacked = [one is None for key in node.keys for one in (True, key)]
            known = [one for one in pairs if one is not None]
            flags = [flag for one, flag in zip(pairs, unpacked, strict=True) if one is not None]
            done = iter(self._parts(known, into, flags))
            settled = [None if one is None else next(done) for one in pairs]
            return clone(node, keys=settled[::2], values=settled[1::2])
        if isinstance(node, ast.NamedExpr):
            return clone(node, value=self.hoist(node.value, into))
        fields = [(name, value) for name, value in ast.iter_fields(node) if isinstance(value, ast.expr | list)]
        parts = [one for _, value in fields for one in (value if isinstance(value, list) else [value])]
        values = [one for one in parts if isinstance(one, ast.expr)]  # a comparison has operators beside
        done = iter(self._parts(values, into))
        changes: dict[str, Any] = {}
        for name, value in fields:
            if isinstance(value, list):
                changes[name] = [next(done) if isinstance(one, ast.expr) else one for one in value]
            else:
                changes[name] = next(done)
        return clone(node, **changes)

    def _parts(
        self, parts: Sequence[ast.expr], into: list[ast.stmt], unpacked: Sequence[bool] | None = None
    ) -> list[ast.expr]:
        """Expressions that are evaluated one after the other; the `unpacked` are mappings behind a `**`."""
        last = max((number for number, one in enumerate(parts) if self.suspends(one)), default=-1)
        done = []
        for number, one in enumerate(parts):
            later = number < last
            if later and unpacked and unpacked[number]:
                one = ast.copy_location(ast.Dict([None], [one]), one)
            if later and isinstance(one, ast.Starred) and self.suspends(one):
                one = clone(one, value=self.hoist(one.value, into))
                done.append(self._settled(one, into))
                continue
            done.append(self.hoist(one, into, later=later))
        return done

    # Places ----------------------------------------------------------------------------------------------------------

    def _call(self, call: ast.Call, into: list[ast.stmt]) -> ast.expr:
        number, name = self.number(call), self.temporary()
        found = ast.copy_location(ask("fn_over" if self.going_over else "fn", number, call.func), call.func)
        run: list[ast.stmt] = [assign(name, self._new(clone(call, func=found)))]
        if self.entering:
            run = [ast.If(frame("r"), [assign(name, ask("rcall", number))], at(call, run))]
        into += self.gate([number], at(call, run))
        return load(name)

    def _got(self, node: ast.Attribute, into: list[ast.stmt]) -> ast.expr:
        """An attribute, by the getter of a property if it can be left: else as it stands there."""
        owner = node.value if isinstance(node.value, ast.Name) else self.keep(node.value, node, into)
        number, getter, name = self.number(node), self.temporary(), self.temporary()
        plainly = clone(node, value=owner)
        asked = ast.Compare(load(getter), [ast.Is()], [ast.Constant(None)])
        run: list[ast.stmt] = [
            assign(getter, ask("got", number, owner, ast.Constant(node.attr))),
            assign(name, ast.IfExp(asked, plainly, ast.Call(load(getter), [owner], []))),
        ]
        if self.entering:
            run = [ast.If(frame("r"), [assign(name, ask("rcall", number))], at(node, run))]
        into += self.gate([number], at(node, run))
        return load(name)

    def _yield(self, node: ast.Yield, into: list[ast.stmt]) -> ast.expr:
        value = None if node.value is None else self.hoist(node.value, into)
        number, name = self.number(node), self.temporary()
        run: list[ast.stmt] = [assign(name, clone(node, value=value))]
        if self.entering:
            run = [ast.If(ask("y", number), run, [assign(name, clone(node, value=None))])]
        else:
            run.insert(0, do(ask("y", number)))
        into += self.gate([number], at(node, run))
        return load(name)

    def _yield_from(self, node: ast.YieldFrom, into: list[ast.stmt]) -> ast.expr:
        value = self.looped_over(node.value, into)
        number, name = self.number(node), self.temporary()
        start = self.plain(at(node, [do(self.begin(number, value))]))
        run = ast.Try([assign(name, clone(node, value=ask("yf", number)))], [], [], [do(ask("dn", number))])
        into += self.gate([number], at(node, [*start, run]))
        return load(name)

    def _comprehension(self, node: Comprehension, into: list[ast.stmt]) -> ast.expr:
        was, self.going_over = self.going_over, False
        name = self.temporary()
        items = {one: self.temporary() for one in targets(node)}
        empty, loops = as_loops(node, name, items)
        self.items |= set(items.values())
        into += self.plain(at(node, [assign(name, empty)]))
        into += self.block([loops])
        self.items -= set(items.values())
        self.going_over = was
        return load(name)

    def released(self, value: ast.expr, into: list[ast.stmt]) -> ast.expr:
        """What a temporary holds, so that nobody holds it any more: only then it may be exchanged."""
        if not (isinstance(value, ast.Name) and value.id.startswith(TEMPORARY)) or value.id in self.items:
            return value
        taken = ast.Attribute(load(FRAME), "v", ast.Store())
        into += self.plain(at(value, [ast.Assign([taken], value), assign(value.id, ast.Constant(None))]))
        return ast.copy_location(ask("take"), value)

    def begin(self, number: int, iterable: ast.expr) -> ast.expr:
        """Ask for the iterator, in the user's own code, and note it down."""
        over = ast.copy_location(ask("over", self._by(self.made_inside(iterable))), iterable)
        asked = ast.copy_location(ask("iter", over), iterable)
        return ask("it", number, ast.copy_location(ask("made", asked), iterable))

    def made(self, value: ast.expr) -> ast.expr:
        """Let a generator that is made here be one that can be saved, and those in a call's arguments."""
        inner = self._by(self.made_inside(value))
        if isinstance(value, ast.Call | ast.IfExp | ast.BoolOp):
            return ast.copy_location(ask("made", inner), value)
        return inner

    def _by(self, value: ast.expr) -> ast.expr:
        """A call that is not taken out: of Python's own functions, which are no classes, and in a generator of any."""
        if not isinstance(value, ast.Call) or (isinstance(value.func, ast.Name) and value.func.id in self.names.plain):
            return value
        if isinstance(value.func, ast.Name) and value.func.id in LOOK_AT_THE_FRAME:
            return value
        return clone(value, func=ast.copy_location(ask("by", value.func), value.func))

    def made_inside(self, value: ast.expr) -> ast.expr:
        """`enumerate(model.parameters())`, `(p.norm() for p in model.parameters())` and their like."""
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in ("enumerate", "zip"):
            return clone(value, args=[self._each(value.func, self.made(one)) for one in value.args])
        if isinstance(value, ast.Call) and not all(isinstance(one, ast.Name | ast.Constant) for one in value.args):
            return clone(value, args=[self.made(one) for one in value.args])
        if isinstance(value, ast.GeneratorExp):
            first, *rest = value.generators
            return clone(value, generators=[clone(first, iter=self.made(first.iter)), *rest])
        return value

    def _each(self, function: ast.Name, value: ast.expr) -> ast.expr:
        """What `function` will ask for its iterator, where nobody could see it."""
        return value if isinstance(value, ast.Starred) else ast.copy_location(ask("each", function, value), value)

    # Not all of these is evaluated -----------------------------------------------------------------------------------

    def _bool(self, node: ast.BoolOp, into: list[ast.stmt]) -> ast.expr:
        first, *rest = node.values
        name = self.temporary()
        into += self._set(name, first)
        test = load(name) if isinstance(node.op, ast.And) else invert(load(name))
        other = clone(node, values=rest) if len(rest) > 1 else rest[0]
        into += self._if(node, test, name, other)
        return load(name)

    def _choice(self, node: ast.IfExp, into: list[ast.stmt]) -> ast.expr:
        test = self.hoist(node.test, into)
        name = self.temporary()
        into += self._if(node, test, name, node.body, node.orelse)
        return load(name)

    def _chain(self, node: ast.Compare, into: list[ast.stmt]) -> ast.expr:
        """`a < b < f()`: f is called only if a < b."""
        left, middle = self._parts([node.left, node.comparators[0]], into)
        left, middle = self._settled(left, into), self._settled(middle, into)
        name = self.temporary()
        first = clone(node, left=left, ops=node.ops[:1], comparators=[middle])
        into += self.plain(at(node, [assign(name, first)]))
        rest = clone(node, left=middle, ops=node.ops[1:], comparators=node.comparators[1:])
        into += self._if(node, load(name), name, rest)
        return load(name)

    def _set(self, name: str, value: ast.expr) -> list[ast.stmt]:
        into: list[ast.stmt] = []
        found = self.hoist(value, into)
        return into + self.plain(at(value, [assign(name, found)]))

    def _if(
        self, node: ast.expr, test: ast.expr, name: str, value: ast.expr, other: ast.expr | None = None
    ) -> list[ast.stmt]:
        """`name` becomes one value or the other."""
        yes, no = self.number(node), None if other is None else self.number(node)
        with self.inside(yes):
            body = self._set(name, value)
        with self.inside(no):
            orelse = [] if other is None else self._set(name, other)
        made = ast.If(self.unless_entering(test, yes), body, orelse)
        return self.gate([yes, no], at(node, [made]))
