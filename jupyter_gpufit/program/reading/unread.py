"""Which variables get a new value before anybody reads the one they have, read from the text alone.

A text is followed from a place onwards, along every way that it may take. In doubt a variable is read: where a function
inside uses it, where something looks at the frame, and where two places share a line.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from .calls import LOOK_AT_THE_FRAME
from .scopes import Loop, bound_by, children, scope

_LOOKS = (LOOK_AT_THE_FRAME - {"super"}) | {"get_ipython"}
_LATER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.GeneratorExp)  # what is in there
_BLOCKS = (ast.For, ast.While, ast.If, ast.With, ast.Try, ast.Match)
_PLAIN = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Assert, ast.Delete, ast.Import, ast.ImportFrom)
_NOTHING = (ast.Pass, ast.Global, ast.Nonlocal)
# Of a tensor these give what has no graph.
_VALUES = {"item", "detach", "tolist", "shape", "size", "dtype", "device", "ndim", "numel", "dim", "argmax", "argmin"}


def is_used_later(trees: Iterable[ast.AST], name: str) -> bool:
    """Whether code that is run at some other time may read it: functions, or what looks at all variables."""
    return any(_is_used_later(node, name, inside=False) for tree in trees for node in children(tree))


def _is_used_later(node: ast.AST, name: str, *, inside: bool) -> bool:
    if isinstance(node, ast.Name) and (node.id in _LOOKS or (inside and node.id == name)):
        return True
    inside = inside or isinstance(node, _LATER)
    return any(_is_used_later(child, name, inside=inside) for child in children(node))


def is_read(body: Sequence[ast.stmt], line: int, name: str, *, calling: bool) -> bool:
    """Whether the value that a variable has may be read: in the call of this line, or at the loop, or behind it."""
    stands_at = _has_call if calling else _is_loop
    places = [one for statement in body for one in ast.walk(statement) if stands_at(one, line)]
    return len(places) != 1 or _Following(name, places[0], calling).along(body, _Ways())


def _is_loop(node: ast.AST, line: int) -> bool:
    return isinstance(node, Loop) and node.lineno == line


def _has_call(node: ast.AST, line: int) -> bool:
    if not isinstance(node, ast.stmt):
        return False
    calls = (part for one in _own(node) for part in ast.walk(one) if isinstance(part, ast.Call))
    return any(part.lineno == line for part in calls)


def _own(node: ast.stmt) -> list[ast.AST]:
    """The parts of a statement that are not statements in their turn."""
    return [one for one in children(node) if not isinstance(one, ast.stmt | ast.ExceptHandler | ast.match_case)]


@dataclass(frozen=True)
class _Ways:
    """Whether the value is read behind each way out of a block."""

    after: bool = False  # at the end of a cell its variables go back without their graphs
    leaving: bool = False  # by `break`
    again: bool = False  # by `continue`


@dataclass(frozen=True)
class _Following:
    """One variable, from a place on. Each method answers: may its value be read?"""

    name: str
    place: ast.AST
    calling: bool

    # From the place on ----------------------------------------------------------------------------------------------

    def along(self, body: Sequence[ast.stmt], ways: _Ways) -> bool:
        """Of the block that the place is in."""
        [number] = [number for number, one in enumerate(body) if self._holds(one)]
        ways = replace(ways, after=self.block(body[number + 1 :], ways))
        return self._into(body[number], ways)

    def _holds(self, node: ast.AST) -> bool:
        return any(one is self.place for one in ast.walk(node))

    def _into(self, node: ast.stmt, ways: _Ways) -> bool:
        if node is self.place:
            if isinstance(node, Loop) and not self.calling:
                return self._head(node, ways)
            return self.statement(node, ways)
        match node:
            case ast.For() | ast.While():
                head = self._head(node, ways)
                within = _Ways(head, leaving=ways.after, again=head)
                return self._in_one([(node.body, within), (node.orelse, ways)])
            case ast.If():
                return self._in_one([(node.body, ways), (node.orelse, ways)])
            case ast.With():
                return self._in_one([(node.body, ways)]) or (not _lets_errors_pass(node) and ways.after)
            case ast.Try():
                end, handled = self._of_errors(node, ways)
                blocks = [(node.body, replace(end, after=self.block(node.orelse, end))), (node.orelse, end)]
                blocks += [(one.body, end) for one in node.handlers] + [(node.finalbody, ways)]
                return handled or end.after or self._in_one(blocks)
            case ast.Match():
                return self._in_one([(one.body, ways) for one in node.cases])
        return True

    def _in_one(self, blocks: Sequence[tuple[Sequence[ast.stmt], _Ways]]) -> bool:
        return all(self.along(body, ways) for body, ways in blocks if any(map(self._holds, body)))

    # From the begin of a block, or of a statement --------------------------------------------------------------------

    def block(self, body: Sequence[ast.stmt], ways: _Ways) -> bool:
        for one in reversed(body):
            ways = replace(ways, after=self.statement(one, ways))
        return ways.after

    def statement(self, node: ast.stmt, ways: _Ways) -> bool:
        if any(map(self._reads, _own(node))) or (
            isinstance(node, ast.AugAssign) and self.name in _names_in(node.target)
        ):
            return True
        if isinstance(node, _BLOCKS):
            return self._of_blocks(node, ways)
        if isinstance(node, ast.Break | ast.Continue):
            return ways.leaving if isinstance(node, ast.Break) else ways.again
        if isinstance(node, ast.Return | ast.Raise):
            return False  # who handles the error is asked where the `try` is
        if isinstance(node, (*_PLAIN, *_NOTHING, *_LATER)):
            return False if self.name in _surely_bound(node) else ways.after
        return True

    def _of_blocks(self, node: ast.stmt, ways: _Ways) -> bool:
        match node:
            case ast.For() | ast.While():
                return self._head(node, ways)
            case ast.If():
                return self.block(node.body, ways) or self.block(node.orelse, ways)
            case ast.With():
                return self.block(node.body, ways) or (not _lets_errors_pass(node) and ways.after)
            case ast.Try():
                end, handled = self._of_errors(node, ways)
                return handled or end.after or self.block([*node.body, *node.orelse], end)
            case ast.Match():
                asked = [part for one in node.cases for part in (one.pattern, one.guard) if part is not None]
                return (
                    ways.after or any(map(self._reads, asked)) or any(self.block(one.body, ways) for one in node.cases)
                )
        return True

    def _of_errors(self, node: ast.Try, ways: _Ways) -> tuple[_Ways, bool]:
        """The ways out in front of a `finally`; and whether the value is read where an error is handled."""
        end = replace(ways, after=self.block(node.finalbody, ways))
        types = [one.type for one in node.handlers if one.type is not None]
        return end, any(map(self._reads, types)) or any(self.block(one.body, end) for one in node.handlers)

    def _head(self, node: Loop, ways: _Ways) -> bool:
        """At the top of an iteration."""
        endless = isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and bool(node.test.value)
        ended = not endless and self.block(node.orelse, ways)
        if isinstance(node, ast.While) and self._reads(node.test):
            return True
        if isinstance(node, ast.For) and self._reads(node.target):
            return True
        if isinstance(node, ast.For) and self.name in _names_in(node.target):
            return ended
        # What is read in the next iteration but one is read in the next, or bound in it.
        return ended or self.block(node.body, _Ways(ended, leaving=ways.after, again=ended))

    def _reads(self, node: ast.AST) -> bool:
        match node:
            case ast.Attribute(value=ast.Name(id=self.name), attr=attribute) if attribute in _VALUES:
                return False
            case ast.Call(func=ast.Name(id="float" | "int" | "bool" | "len"), args=[ast.Name(id=self.name)]):
                return False
            case ast.Name(id=self.name, ctx=ast.Load()):
                return True
        return any(map(self._reads, children(node)))


def _lets_errors_pass(node: ast.With) -> bool:
    """Whether what follows is only reached through the whole block: torch's managers keep no error back."""
    return all(ast.unparse(one.context_expr).startswith("torch.") for one in node.items)


def _surely_bound(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            for target in targets:
                yield from _names_in(target)
        case ast.AnnAssign(target=target, value=ast.expr()):
            yield from _names_in(target)
        case ast.Import() | ast.ImportFrom() | ast.FunctionDef() | ast.ClassDef():
            yield from bound_by(node)


def _names_in(target: ast.expr) -> set[str]:
    return {one.id for one in scope(target) if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)}
