"""Cuts the loops of the cell, and of the notebook's functions, so that what comes after training is seen too.

A loop is left when two optimizer steps happened in it, or when it only evaluates and two iterations in a row left as
many bytes as they found. Never left: a loop over micro-batches, one that collects outputs on the device, one over
layers. Loops of libraries are not rewritten; there the child ends from the optimizer's hook (see steps.py).
"""

from __future__ import annotations

import ast
import dis
import gc
import inspect
import textwrap
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from itertools import pairwise, repeat
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from ...system.codes import codes_inside
from .books import Books
from .left_out import Place, without
from .paths import Paths

if TYPE_CHECKING:
    from .steps import Steps

CUT = "__gpufit_cut__"
_LONGEST_COLLECTING = 20.0  # seconds of a processor: a busy machine must not change what is found


class Loops:
    """The rewritten loops that are running, innermost last."""

    def __init__(self, books: Books, paths: Paths, steps: Steps, enough: Callable[[], None]) -> None:
        self.books, self.paths, self.steps = books, paths, steps
        self.enough = enough  # called when a loop is left because it has trained
        self.active: list[weakref.ref[Cut]] = []
        self._step_at_iteration = 0
        self._left_out: int | None = 0  # steps of the iterations that were not run; None: nobody knows how many
        self._collecting_until: float | None = None

    def cut(self, items: Iterable[Any] | None) -> Cut:
        """What stands in a `for` for `items`; None: for ever, a `while`."""
        length = None
        with suppress(Exception):  # a class may have `__len__` and what it holds none: `tqdm(enumerate(...))`
            length = len(items)  # type: ignore[arg-type]
        return Cut(self, iter(repeat(None) if items is None else items), length)

    @property
    def steps_so_far(self) -> int:
        """With those that were left out."""
        return self.books.step + (self._left_out or 0)

    def leave_out(self, iterations: int | None, steps: int, of: int) -> None:
        """So many more iterations would have come, if as many steps fall on each as on those `of` it that were run."""
        if iterations is None or self._left_out is None:
            self._left_out = None
        else:
            self._left_out += round(iterations * steps / max(1, of))

    def steps_in_all(self) -> int:
        """That the optimizer makes in the whole cell; 0: nobody knows."""
        return 0 if self._left_out is None else self.steps_so_far // max(1, len(self.steps.taken))

    def next_iteration(self) -> None:
        self._step_at_iteration = self.books.step

    def steps_in_this_iteration(self) -> int:
        return self.books.step - self._step_at_iteration

    def may_collect(self) -> bool:
        """Before anything was trained, a policy in training mode may gather what it will learn from; for a while."""
        if self.books.backwards or not self.paths.learning or not self.steps.on_device():
            return False
        if self._collecting_until is None:
            self._collecting_until = time.process_time() + _LONGEST_COLLECTING
        return time.process_time() < self._collecting_until

    def had_enough(self, since: Mapping[int, int], step: int) -> bool:
        taken = [now - since.get(key, 0) for key, now in self.steps.counts().items()]
        here = [count for count in taken if count]
        wanted = self.steps.steps
        return bool(here) and (min(here) >= wanted or self.books.step - step >= 5 * wanted)


class Cut:
    """An iterator that may end early. A class, since a generator would keep each item alive into the next iteration."""

    def __init__(self, loops: Loops, items: Iterator[Any], length: int | None) -> None:
        self._loops, self._items, self._length = loops, items, length
        self._done, self._steps_before = 0, loops.steps_so_far
        self._since, self._step = loops.steps.counts(), loops.books.step
        self._calls, self._backwards = len(loops.paths.roots), loops.books.backwards
        self._live = self._quiet = 0
        self._models: frozenset[int] | None = None  # that the last iteration called
        self._me = weakref.ref(self)
        loops.active.append(self._me)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        trained = self._loops.had_enough(self._since, self._step)
        if trained or self._only_evaluates():
            self.end()
            if trained:
                left = None if self._length is None else max(0, self._length - self._done)
                self._loops.leave_out(left, self._loops.steps_so_far - self._steps_before, self._done)
                self._loops.enough()
            raise StopIteration
        self._loops.next_iteration()
        try:
            item = next(self._items)
            self._done += 1
            return item
        except BaseException:
            self.end()
            raise

    def __del__(self) -> None:
        self.end()  # a `break`, or an exception: the loop drops us

    def end(self) -> None:
        if self._me in self._loops.active:
            self._loops.active.remove(self._me)
            self._loops.next_iteration()

    def _only_evaluates(self) -> bool:
        """Two iterations in a row of the same models, none training, that left the live bytes as they were.

        Or that trained by hand: steps without an optimizer are counted by nobody.
        """
        books, paths = self._loops.books, self._loops.paths
        called = paths.roots[self._calls :]
        models = frozenset(root for root, _, _ in called)
        evaluates = bool(called) and not any(grad for _, grad, _ in called)
        by_hand = books.backwards > self._backwards and not self._loops.steps.on_device()
        same = self._models in (None, models) and books.now == self._live
        self._quiet = self._quiet + 1 if (evaluates or by_hand) and same and not paths.stack else 0
        self._calls, self._backwards, self._live = len(paths.roots), books.backwards, books.now
        self._models = models or self._models
        return self._quiet >= 2 and not self._loops.may_collect()


class CutLoops(ast.NodeTransformer):
    """Puts `cut(...)` around what loops run over."""

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        node.iter = _call_cut(node.iter)
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        """`while test: body` becomes `for _ in cut(None): if not test: break; body`; a `continue` still works."""
        self.generic_visit(node)
        if node.orelse:
            return node  # whose else-branch a `break` would skip
        leave = ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Break()], [])
        target = ast.Name("__gpufit_turn__", ast.Store())
        endless = ast.copy_location(ast.Constant(None), node.test)  # whose line is the loop's, from Python 3.13 on
        loop = ast.For(target, _call_cut(endless), [leave, *node.body], [])
        ast.fix_missing_locations(ast.copy_location(leave, node.test))
        return ast.fix_missing_locations(ast.copy_location(loop, node))

    def _visit_comprehension(self, node: Any) -> Any:
        self.generic_visit(node)
        if not node.generators[0].is_async:
            node.generators[0].iter = _call_cut(node.generators[0].iter)
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = _visit_comprehension


def _call_cut(items: ast.expr) -> ast.expr:
    called: ast.expr = _at(items, ast.Call(ast.Name(CUT, ast.Load()), [items], []))
    return called


def _at(place: ast.AST, node: Any) -> Any:
    ast.copy_location(node, place)
    return ast.fix_missing_locations(node)


def cut_cell(source: str, filename: str, left_out: Collection[Place] = ()) -> CodeType:
    """The cell's code; its own syntax errors come as they are."""
    tree = CutLoops().visit(without(ast.parse(source, filename), filename, left_out))
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code: CodeType = compile(ast.fix_missing_locations(tree), filename, "exec", flags, dont_inherit=True)
    return code


def cut_functions(namespace: dict[str, Any], left_out: Collection[Place] = ()) -> list[str]:
    """Rewrite the notebook's functions in place, where their source is known; the names of those that are not."""
    unknown = []
    for fn in _functions_of(namespace):
        try:
            code = _cut_code(fn, left_out, CutLoops().visit)
        except _NO_SOURCE:
            unknown.append(fn.__qualname__)
            continue
        if code is not None:
            fn.__code__ = code
    return unknown


def leave_out_of_libraries(namespace: dict[str, Any], left_out: Collection[Place]) -> None:
    """In a process of one trace: nobody else sees it."""
    if not left_out:
        return
    gc.unfreeze()  # what is frozen is not listed
    files = {file for file, _ in left_out}
    _leave_out_of_what_is_imported(left_out, files)
    functions = [one for one in gc.get_objects() if type(one) is FunctionType and one.__code__.co_filename in files]
    for fn in functions:
        lines = {line for file, line in left_out if file == fn.__code__.co_filename}
        if fn.__globals__ is not namespace and not lines.isdisjoint(line for *_, line in fn.__code__.co_lines()):
            with suppress(*_NO_SOURCE):
                fn.__code__ = _cut_code(fn, left_out) or fn.__code__


def _leave_out_of_what_is_imported(left_out: Collection[Place], files: Collection[str]) -> None:
    code_of = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        if path not in files:
            return code_of(self, fullname)
        tree: Any = without(ast.parse(self.get_data(path)), path, left_out)
        code: CodeType = compile(tree, path, "exec", dont_inherit=True)
        return code

    SourceFileLoader.get_code = get_code  # type: ignore[assignment, method-assign]


_NO_SOURCE = (OSError, TypeError, SyntaxError, IndentationError, ValueError)


def _functions_of(namespace: dict[str, Any]) -> Iterator[FunctionType]:
    for value in list(namespace.values()):
        # By their types alone: any object may be among the variables, and `isinstance` would ask it.
        inside = list(vars(value).values()) if issubclass(type(value), type) else [value]
        for one in inside:
            fn = one.__func__ if issubclass(type(one), (staticmethod, classmethod)) else one
            fn = inspect.unwrap(fn) if type(fn) is FunctionType else fn
            if type(fn) is FunctionType and fn.__globals__ is namespace:
                yield fn


def _cut_code(
    fn: FunctionType, left_out: Collection[Place], cut: Callable[[ast.AST], Any] = lambda tree: tree
) -> CodeType | None:
    old = fn.__code__
    if old.co_name == "<lambda>":
        return None
    if not _may_loop(old) and not any(file == old.co_filename for file, _ in left_out):
        return None  # a dataclass's own methods have no source, and need none
    lines, first = inspect.getsourcelines(old)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    ast.increment_lineno(tree, first - 1)
    body = cut(without(tree, old.co_filename, left_out))
    # Its closure's names must be some enclosing function's, or they would be compiled as globals; its private ones are
    # compiled by the name of its class.
    name = _class_of(old)
    outer = ast.parse(f"def __outer__():\n    class {name}:\n        pass").body[0]
    assert isinstance(outer, ast.FunctionDef) and isinstance(outer.body[0], ast.ClassDef)
    closed = [ast.Assign([ast.Name(name, ast.Store())], ast.Constant(None)) for name in old.co_freevars]
    outer.body[0].body = body.body
    where = [] if name in old.co_freevars else [ast.Global([name])]  # the function may ask for its class
    outer.body = [*where, *closed, *outer.body]
    module = compile(ast.fix_missing_locations(ast.Module([outer], [])), old.co_filename, "exec", dont_inherit=True)
    found = next((code for code in codes_inside(module) if _head(code) == _head(old)), None)
    if found is None:  # from Python 3.13 on, `python -c` lends its own text to all that is made from a string
        raise ValueError("another text than the function's")
    return found.replace(co_qualname=old.co_qualname)


def _class_of(code: CodeType) -> str:
    """The innermost class that it stands in; one without a private name, where it stands in none."""
    parts = code.co_qualname.split(".")
    classes = [one for one, below in pairwise(parts) if "<locals>" not in (one, below)]
    return classes[-1] if classes else "_"


def _head(code: CodeType) -> tuple[object, ...]:
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return code.co_name, code.co_firstlineno, arguments, code.co_freevars


def _may_loop(code: CodeType) -> bool:
    return any(
        "JUMP_BACKWARD" in one.opname for inner in (code, *codes_inside(code)) for one in dis.get_instructions(inner)
    )
