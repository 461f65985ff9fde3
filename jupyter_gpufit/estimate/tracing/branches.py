"""What a yes or no must be that nobody knows, so that the cell goes on: not into a `raise`, a `break` or a `return`.

Where all that comes behind a `return` is a `raise`, the `return` is how it goes on; so is a `break` out of a loop whose
`else` raises.

A `while` is not gone round for ever: where what nobody knows decides whether it ends, it ends after a few turns in
which no optimizer took a step. So does one that tries until all is well: `while True: ...; if valid.all(): break`.

Fake tensors have no values, and a guess of no takes every check for failed: `if not valid.all(): raise`. The line that
asks is read from its source; where there is none, or where no branch gives up, the guess stays.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from types import CodeType, FrameType

from .failures import not_the_users
from .rounds import Rounds

_LEAVE = (ast.Break, ast.Return, ast.Continue)
_PASS_ON = ("bool", "all", "any")  # true, as far as one can say, where what they are given is
_EXITS = ("exit", "quit", "_exit", "abort", "fail", "skip")

_TRIED = (0.0, 1e9, -1e9)

Place = tuple[int, int, int, int]  # first line, column; last line, column


def wanted(rounds: Rounds, step: int) -> bool | None:
    """The answer with which the code that asks for a truth value now goes on; None: it goes on with either."""
    frame: FrameType | None = sys._getframe(1)
    inside: list[_Wanted] = []  # functions that return the one or the other by what is asked, and were called here
    while frame is not None:
        if not not_the_users(frame.f_code.co_filename):
            place = frame.f_code, frame.f_lasti
            found = _wanted_at(*place)
            if found.returns is not None:
                inside.append(found)
            elif found is not _RETURNED:
                ends = found.goes_round and not _is_optimizers(frame) and rounds.are_enough(place, step)
                return _asked_inside(found.answer if found.answer is None else found.answer is not ends, inside)
        frame = frame.f_back
    return _asked_inside(None, inside)


def only_draws() -> bool:
    """Whether one of torch's initialisers asks, which draws again what lies out of bounds: no size hangs on it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not_the_users(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__") == "torch.nn.init"


def _asked_inside(answer: bool | None, inside: Sequence[_Wanted]) -> bool | None:
    """What the innermost must be told so that the outermost returns `answer`."""
    for found in reversed(inside):
        assert found.returns is not None
        answer = found.answer if answer is None else found.returns.index(answer) == 0
    return answer


def _is_optimizers(frame: FrameType) -> bool:
    """A step of torch's LBFGS may be a whole training."""
    return str(frame.f_globals.get("__name__")).startswith("torch.optim.")


def tried(rounds: Rounds, step: int) -> float | None:
    """A number for one that a `while` has asked for again and again: small, large or below nought, by turns."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not_the_users(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None or not _is_in_while(frame.f_code, frame.f_lasti):
        return None
    many = rounds.many((frame.f_code, frame.f_lasti), step)
    return _TRIED[many % len(_TRIED)] if many else None


@dataclass(frozen=True)
class _Wanted:
    answer: bool | None = None
    goes_round: bool = False  # a `while`, with this answer
    returns: tuple[bool, bool] | None = None  # what its function returns if it is so, and if not


_RETURNED = _Wanted()  # the one who called has to be looked at; told by its identity


@lru_cache(maxsize=4096)
def _is_in_while(code: CodeType, instruction: int) -> bool:
    tree = _tree(code.co_filename)
    place = _place(code, instruction, tree) if tree is not None else None
    return place is not None and tree is not None and isinstance(_loop_around(place, tree), ast.While)


@lru_cache(maxsize=4096)
def _wanted_at(code: CodeType, instruction: int) -> _Wanted:
    tree = _tree(code.co_filename)
    place = _place(code, instruction, tree) if tree is not None else None
    if place is None or tree is None:
        return _Wanted()
    for statement in _statements_at(tree, place):
        if isinstance(statement, ast.Return) and statement.value is not None and _within(statement.value, place):
            return _RETURNED if _is_asked(statement.value, place) is True else _Wanted()
        if isinstance(statement, (ast.If, ast.Assert, ast.While)) and _within(statement.test, place):
            straight = _is_asked(statement.test, place)
            answer = _answer(statement, tree)
            if straight is None or answer is None:
                return _Wanted()
            goes_round = _goes_round(statement, answer, tree)
            returns = _returns(statement, tree)
            return _Wanted(answer is straight, goes_round, returns if straight or returns is None else returns[::-1])
    return _Wanted()


def _returns(statement: ast.If | ast.Assert | ast.While, tree: ast.Module) -> tuple[bool, bool] | None:
    """Of `if finished: return False` with `return True` behind it: the caller decides what that means."""
    if not isinstance(statement, ast.If) or (first := _truth_of(statement.body)) is None:
        return None
    second = _truth_of(statement.orelse or _behind(statement.body[-1], tree))
    return (first, second) if second is not None and second is not first else None


def _truth_of(body: list[ast.stmt]) -> bool | None:
    last = body[-1] if body else None
    value = last.value if isinstance(last, ast.Return) else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, bool) else None


def _goes_round(statement: ast.If | ast.Assert | ast.While, answer: bool, tree: ast.Module) -> bool:
    """Whether a `while` goes on for as long as the test comes out so, and else ends."""
    if not isinstance(statement, ast.If):
        return isinstance(statement, ast.While)
    other = statement.orelse if answer else statement.body
    around = _loop_around(_place_of(statement), tree)
    return isinstance(around, ast.While) and bool(other) and isinstance(other[-1], (ast.Break, ast.Return))


def _loop_around(place: Place, tree: ast.Module) -> ast.AST | None:
    """The innermost loop, of the same function."""
    kinds = (ast.For, ast.AsyncFor, ast.While, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    around = [node for node in ast.walk(tree) if isinstance(node, kinds) and _within(node, place)]
    return around[-1] if around else None  # walked to last


def _answer(statement: ast.If | ast.Assert | ast.While, tree: ast.Module) -> bool | None:
    """What the whole test must be."""
    if isinstance(statement, (ast.Assert, ast.While)):
        return True
    raises = _raises(statement.body), _raises(statement.orelse)
    if raises[0] != raises[1]:
        return raises[1]
    leaves = _leaves(statement.body), _leaves(statement.orelse)
    if leaves[0] == leaves[1]:
        return None
    leaving = (statement.body if leaves[0] else statement.orelse)[-1]
    return leaves[0] if _raises(_behind(leaving, tree)) else leaves[1]


def _behind(leaving: ast.stmt, tree: ast.Module) -> list[ast.stmt]:
    """What is reached at last where this statement is not: the function's end, or its loop's `else`."""
    kinds = {ast.Return: (ast.FunctionDef, ast.AsyncFunctionDef), ast.Break: (ast.For, ast.AsyncFor, ast.While)}
    place = _place_of(leaving)
    around = [
        node for node in ast.walk(tree) if isinstance(node, kinds.get(type(leaving), ())) and _within(node, place)
    ]
    if not around:
        return []
    inner = around[-1]  # the innermost: walked to last
    return inner.orelse if isinstance(inner, (ast.For, ast.AsyncFor, ast.While)) else inner.body


def _raises(body: list[ast.stmt]) -> bool:
    last = body[-1] if body else None
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        called = last.value.func
        return getattr(called, "attr", getattr(called, "id", "")) in _EXITS
    return isinstance(last, ast.Raise)


def _leaves(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], _LEAVE)


def _is_asked(test: ast.expr, place: Place) -> bool | None:
    """Whether the test is true when what is asked at this place is; None: it hangs on something else, too."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        found = True if _place_of(test) == place else _is_asked(test.operand, place)
        return None if found is None else not found
    if _place_of(test) == place or _is_called_on_a_later_line(test, place):
        return True
    if isinstance(test, ast.BoolOp):
        return next((_is_asked(part, place) for part in test.values if _within(part, place)), None)
    if isinstance(test, ast.NamedExpr):
        return _is_asked(test.value, place)
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id in _PASS_ON and test.args:
        asked = test.args[0]  # with `all` and `any`, each of what they go through
        return _is_asked(asked.elt if isinstance(asked, (ast.GeneratorExp, ast.ListComp)) else asked, place)
    return None


def _is_called_on_a_later_line(test: ast.expr, place: Place) -> bool:
    """A method's call stands where the method's name does, if its object began on a line before."""
    return isinstance(test, ast.Call) and isinstance(test.func, ast.Attribute) and _place_of(test)[2:] == place[2:]


def _place(code: CodeType, instruction: int, tree: ast.Module) -> Place | None:
    """Of the expression whose truth is asked.

    Up to Python 3.11 a jump stands where its whole statement does; what was computed before it is what it asks.
    """
    places = list(islice(code.co_positions(), instruction // 2 + 1))
    statements = {_place_of(node) for node in ast.walk(tree) if isinstance(node, (ast.If, ast.Assert, ast.While))}
    for line, last, column, end in reversed(places):
        if line is None or last is None or column is None or end is None:
            return None
        if (place := (line, column, last, end)) not in statements:
            return place
    return None


def _place_of(node: ast.expr | ast.stmt) -> Place:
    return node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0


def _within(node: ast.expr | ast.stmt, place: Place) -> bool:
    around = _place_of(node)
    return around[:2] <= place[:2] and place[2:] <= around[2:]


@lru_cache(maxsize=64)
def _tree(filename: str) -> ast.Module | None:
    lines = linecache.getlines(filename)
    try:
        return ast.parse("".join(lines)) if lines else None
    except (SyntaxError, ValueError):
        return None


def _statements_at(tree: ast.Module, place: Place) -> Sequence[ast.stmt]:
    """The statements around a place, the innermost first."""
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.If, ast.Assert, ast.Return, ast.While))
        and node.lineno <= place[0] <= (node.end_lineno or 0)
    ]
    return found[::-1]
