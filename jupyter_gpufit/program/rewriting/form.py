"""What the two forms of a rewritten unit have in common: numbered places, guards and temporaries.

The *running* form is the user's code with its iterators, context managers and callees noted down. The *entering* form
does the same and can be entered at a place: while it goes there (`_gf_f.r`), every plain statement is skipped and every
construct that does not enclose the place. Both are made by the same walk, so that their numbers are the same.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from ..reading.calls import Names
from ..values import TEMPORARY, Kind, Path, Spot
from .nodes import assign, frame, invert, load, on_path


class Form:
    def __init__(self, kind: Kind, names: Names, *, entering: bool, is_librarys: bool = False) -> None:
        self.kind, self.entering, self.is_librarys = kind, entering, is_librarys
        self.names = replace(names, getters=frozenset()) if is_librarys else names  # theirs gain nothing by it
        self.paths: dict[int, Path] = {}
        self.lines: dict[int, int] = {}
        self.spots: dict[int, Spot] = {}
        self._numbers_of: Counter[tuple[str, int, int]] = Counter()
        self.temporaries: list[str] = []
        self.iterated: frozenset[str] = frozenset()  # variables over which there are loops
        self.going_over = False  # just now, in what a loop goes over
        self.items: set[str] = set()  # temporaries that stand for a comprehension's variables, here
        self.used = 0  # temporaries, in the statement at hand
        self._most_used = 0  # at one time, in the block at hand
        self._around: list[int] = []
        self._suspending: dict[ast.AST, bool] = {}  # expressions that have been looked at
        self._all_at_once: dict[ast.AST, ast.AST] = {}  # calls, and what they are read as
        self._stopping: dict[ast.AST, bool] = {}  # and statements

    def number(self, node: ast.AST) -> int:
        """A number for a construct, or for a place in it."""
        number = len(self.lines)
        self.lines[number] = getattr(node, "lineno", 0)
        self.paths[number] = frozenset((*self._around, number))
        there = type(node).__name__, self.lines[number], getattr(node, "col_offset", 0)
        self.spots[number] = *there, self._numbers_of[there]
        self._numbers_of[there] += 1
        return number

    @contextmanager
    def inside(self, *numbers: int | None) -> Iterator[None]:
        known = [one for one in numbers if one is not None]
        self._around += known
        yield
        del self._around[len(self._around) - len(known) :]

    def plain(self, run: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Statements that are done in one go: skipped on the way to the place."""
        if not run or not self.entering:
            return list(run)
        return [ast.copy_location(ast.If(invert(frame("r")), list(run), []), run[0])]

    def gate(self, numbers: Sequence[int | None], made: list[ast.stmt]) -> list[ast.stmt]:
        """A construct that is entered on the way only if the place is inside it."""
        if not self.entering:
            return made
        tests = [invert(frame("r")), *(on_path(one) for one in numbers if one is not None)]
        return [ast.copy_location(ast.If(ast.BoolOp(ast.Or(), tests), made, []), made[0])]

    def unless_entering(self, value: ast.expr, number: int) -> ast.expr:
        """A test; on the way, whether the place is inside `number`."""
        return ast.IfExp(frame("r"), on_path(number), value) if self.entering else value

    def temporary(self) -> str:
        name = f"{TEMPORARY}{self.used}"
        self.used += 1
        if self.used > len(self.temporaries):
            self.temporaries.append(name)
        self._most_used = max(self._most_used, self.used)
        return name

    def clear(self, since: int) -> list[ast.stmt]:
        """Let go of what the temporaries hold: in plain Python it would not live on either."""
        names, self.used = self.temporaries[since : self.used], since
        return self._cleared(names)

    @contextmanager
    def block_that_may_fail(self, cleared: list[ast.stmt]) -> Iterator[None]:
        """Fills `cleared` with what lets go of all that the block's temporaries may hold when it is left midway."""
        before, self._most_used = self._most_used, self.used
        yield
        cleared += self._cleared(self.temporaries[self.used : self._most_used])
        self._most_used = max(before, self._most_used)

    def _cleared(self, names: Sequence[str]) -> list[ast.stmt]:
        targets: list[ast.expr] = [ast.Name(name, ast.Store()) for name in names]
        return self.plain([ast.Assign(targets, ast.Constant(None))]) if names else []

    def keep(self, value: ast.expr, place: ast.AST, into: list[ast.stmt]) -> ast.expr:
        """Evaluate into a temporary, here."""
        name = self.temporary()
        into += self.plain([ast.copy_location(assign(name, value), place)])
        return load(name)
