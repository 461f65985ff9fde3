"""Generators that stand at a `yield`: where they do, as plain values, and others that are made to stand there.

A frame shows its line and its variables. The iterators of the loops it is in only the garbage collector tells,
outermost first; where the yield is a statement by itself, in loops and branches alone, nothing else is on the stack.
Not told: who stands in a `with`, a `try` or an expression, and who shares variables with functions inside of it.

The other one is made from the text: what follows the yield is done first, then the loops go on where they were.
"""

from __future__ import annotations

import ast
import gc
import inspect
import operator
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

Branch = tuple[str, int]  # the name of a block's field, and the place of a statement in it
_AT = "_gpufit_standing"  # an attribute of a function that was made here: what it goes on from
_OURS = "_gf_"  # what names in rewritten code begin with
_ITERATOR = f"{_OURS}it"
_ONCE = f"{_OURS}once"


@dataclass(frozen=True)
class AtYield:
    """Between the `yield` of a line and what follows it."""

    function: FunctionType
    line: int
    values: dict[str, Any]  # its variables
    its: tuple[Any, ...]  # of the `for` loops it is in, outermost first


def standing(generator: Any) -> AtYield | None:
    """Of one that is suspended in code as its author wrote it, or in code that was made here."""
    function = function_of(generator)
    if function is None:
        return None
    found: AtYield | None = getattr(function, _AT, None)
    own = function if found is None else found.function
    frame = generator.gi_frame
    line, shown = frame.f_lineno, dict(frame.f_locals)
    loops = _loops(own, line)
    if loops is None or (found is None and not _is_as_written(own)):
        return None
    kept = [one for number in range(loops) if (one := shown.get(f"{_ITERATOR}{number}")) is not None]
    at_work = _stack(generator, function, shown, loops - len(kept))
    if at_work is None:
        return None
    return AtYield(own, line, variables(own, shown), (*kept, *at_work))


def _stack(generator: Any, function: FunctionType, shown: dict[str, Any], size: int) -> list[Any] | None:
    """What lies on it; None if that is not of this size.

    It is told behind the function, its code and the variables; at the end there may be an error that is being handled.
    """
    code, told = function.__code__, gc.get_referents(generator)
    begin = next(number for number, one in enumerate(told) if one is function) + 2
    begin += sum(name in shown for name in code.co_varnames) + len(code.co_freevars)
    stack, left = told[begin : begin + size], told[begin + size :]
    return (
        stack
        if len(stack) == size and all(one is None for one in left) and all(hasattr(one, "__next__") for one in stack)
        else None
    )


def standing_in(function: FunctionType, line: int, shown: dict[str, Any], its: list[Any]) -> AtYield | None:
    """The same of one in rewritten code, which knows its iterators."""
    is_whole = _loops(function, line) == len(its)
    return AtYield(function, line, variables(function, shown), tuple(its)) if is_whole else None


def not_asked(generator: Any) -> AtYield | None:
    """What one that was made here is to go on from, if nobody has asked it for an item yet."""
    if inspect.getgeneratorstate(generator) != inspect.GEN_CREATED:
        return None
    function = function_of(generator)
    found: AtYield | None = getattr(function, _AT, None)
    return found


def variables(function: FunctionType, shown: dict[str, Any]) -> dict[str, Any]:
    return {name: shown[name] for name in function.__code__.co_varnames if name in shown and not name.startswith(_OURS)}


def go_on(at: AtYield) -> Any:
    """A generator that gives what the one that stood there would have given next."""
    tree = _tree_of(at.function)
    assert tree is not None
    path = _path(tree.body, at.line)
    assert path is not None
    code, its = at.function.__code__, {f"{_ITERATOR}{number}": one for number, one in enumerate(at.its)}
    body = [*_declared(tree), *_Rest().of(tree, path)]
    names = [*at.values, *its]
    args = ast.arguments([], [], None, [ast.arg(name) for name in names], [None] * len(names), None, [])
    # A generator even where no yield follows.
    never = ast.If(ast.Constant(False), [ast.Expr(ast.Yield(None))], [])
    made = _compiled(_like(tree, code.co_name, args, [never, *body]), code)
    made = made.replace(co_qualname=code.co_qualname)
    cells = dict(zip(code.co_freevars, at.function.__closure__ or (), strict=True))
    closure = tuple(cells[name] for name in made.co_freevars)
    function = FunctionType(made, at.function.__globals__, code.co_name, None, closure)
    vars(function)[_AT] = at
    return function(**at.values, **its)


def enclosing(function: FunctionType, line: int) -> list[ast.stmt]:
    """The loops and branches around the yield of a line, outermost first."""
    tree = _tree_of(function)
    path = None if tree is None else _path(tree.body, line)
    return [] if tree is None or path is None else _around(tree, path)


# The text ------------------------------------------------------------------------------------------------------------


def function_of(generator: Any, *, of_text: bool = False) -> FunctionType | None:
    """Its frame holds it, and says so to the garbage collector only. `of_text`: whatever code it has by now."""
    held = [one for one in gc.get_referents(generator) if type(one) is FunctionType]
    code = generator.gi_code
    same = _of_one_text if of_text else operator.is_
    return next((one for one in held if same(one.__code__, code)), None)


def _of_one_text(one: CodeType, other: CodeType) -> bool:
    return (one.co_qualname, one.co_firstlineno) == (other.co_qualname, other.co_firstlineno)


def _loops(function: FunctionType, line: int) -> int | None:
    """How many `for` loops are around the yield of a line; None where more than that would have to be known."""
    tree = _tree_of(function)
    path = None if tree is None else _path(tree.body, line)
    return None if tree is None or path is None else sum(isinstance(one, ast.For) for one in _around(tree, path))


def _tree_of(function: FunctionType) -> ast.FunctionDef | None:
    code = function.__code__
    if code.co_cellvars or "__class__" in code.co_freevars:
        return None
    try:
        found = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, SyntaxError, IndexError):
        return None
    if not isinstance(found, ast.FunctionDef) or found.name != code.co_name or any(map(_is_private, ast.walk(found))):
        return None
    first = min([found.lineno, *(one.lineno for one in found.decorator_list)])
    ast.increment_lineno(found, code.co_firstlineno - first)
    return found


def _is_as_written(function: FunctionType) -> bool:
    """Whether it was made of the text that is there now: a file may have been edited since it was imported."""
    tree, code = _tree_of(function), function.__code__
    assert tree is not None
    made = _compiled(_like(tree, tree.name, tree.args, tree.body), code)
    return _looks(made, tree.body[0].lineno) == _looks(code, tree.body[0].lineno)


def _looks(code: CodeType, first: int) -> tuple[Any, ...]:
    """What does not depend on the text around it, as the instructions of a call do."""
    lines = {line for *_, line in code.co_lines() if line is not None and line >= first}
    values = [one for one in code.co_consts if not isinstance(one, CodeType)]
    return lines, code.co_names, code.co_varnames, repr(values)


def _is_private(node: ast.AST) -> bool:
    """A name that is another one inside its class."""
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name.startswith("__") and not name.endswith("__")


def _path(body: list[ast.stmt], line: int) -> list[Branch] | None:
    """The way to the only yield of a line, through the blocks of loops and branches."""
    if sum(getattr(node, "lineno", 0) == line for one in body for node in ast.walk(one) if _yields(node)) != 1:
        return None
    return next(_paths("body", body, line), None)


def _yields(node: ast.AST) -> bool:
    return isinstance(node, ast.Yield | ast.YieldFrom)


def _paths(field: str, block: list[ast.stmt], line: int) -> Iterator[list[Branch]]:
    for number, one in enumerate(block):
        here = (field, number)
        match one:
            case ast.Expr(value=ast.Yield(lineno=found)) if found == line:
                yield [here]
            case ast.If():
                yield from ([here, *way] for way in _paths("body", one.body, line))
                yield from ([here, *way] for way in _paths("orelse", one.orelse, line))
            case ast.For() | ast.While():
                yield from ([here, *way] for way in _paths("body", one.body, line))


def _around(node: ast.AST, path: list[Branch]) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for field, number in path:
        node = getattr(node, field)[number]
        found.append(node)  # type: ignore[arg-type]  # a block holds statements
    return found[:-1]


def _declared(tree: ast.FunctionDef) -> list[ast.stmt]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Global | ast.Nonlocal)]


class _Rest:
    """What is left to be done of a function, from behind a yield on."""

    def __init__(self) -> None:
        self.loops = 0

    def of(self, node: ast.AST, path: list[Branch]) -> list[ast.stmt]:
        (field, number), *further = path
        block: list[ast.stmt] = getattr(node, field)
        return [*(self._within(block[number], further) if further else []), *block[number + 1 :]]

    def _within(self, node: ast.stmt, path: list[Branch]) -> list[ast.stmt]:
        match node:
            case ast.For():
                name, self.loops = f"{_ITERATOR}{self.loops}", self.loops + 1
                rest = self.of(node, path)
                # From here on the loop itself has the iterator, and not the variable.
                taken = ast.Tuple([_load(name), ast.NamedExpr(_store(name), ast.Constant(None))], ast.Load())
                over = ast.Subscript(taken, ast.Constant(0), ast.Load())
                return _once(rest, ast.copy_location(ast.For(node.target, over, node.body, node.orelse), node))
            case ast.While():
                return _once(self.of(node, path), node)
        return self.of(node, path)


def _once(rest: list[ast.stmt], loop: ast.stmt) -> list[ast.stmt]:
    """The rest of a turn, in which `continue` goes on with the loop and `break` ends it."""
    begun = ast.copy_location(ast.Assign([_store(_ONCE)], ast.Constant(True)), loop)
    first = ast.Assign([_store(_ONCE)], ast.Constant(False))
    return [begun, ast.copy_location(ast.While(_load(_ONCE), [first, *rest], [loop]), loop)]


def _like(function: ast.FunctionDef, name: str, args: ast.arguments, body: list[ast.stmt]) -> ast.FunctionDef:
    made = ast.copy_location(ast.FunctionDef(name, args, body, [], None), function)
    vars(made).setdefault("type_params", [])  # from Python 3.12 on
    return made


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _store(name: str) -> ast.Name:
    return ast.Name(name, ast.Store())


def _compiled(tree: ast.FunctionDef, of: CodeType) -> CodeType:
    """Its code, where the names that the other one has from around it are from around it, too."""
    around = ast.arguments([], [ast.arg(name) for name in of.co_freevars], None, [], [], None, [])
    module = ast.fix_missing_locations(ast.Module([_like(tree, "_gf_make", around, [tree])], []))
    outer = _inside(compile(module, of.co_filename, "exec", dont_inherit=True), "_gf_make")
    return _inside(outer, of.co_name)


def _inside(code: CodeType, name: str) -> CodeType:
    return next(one for one in code.co_consts if isinstance(one, CodeType) and one.co_name == name)
