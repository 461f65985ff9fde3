"""The text of a function of a library, found by its code: compiled again it must give that very code.

So nothing goes on that was changed after its import, by a hook, a decorator that rewrites, or another version's file.
A file is parsed once, for the places of its functions; of a function only its own lines are parsed and compiled.
"""

from __future__ import annotations

import ast
import hashlib
import linecache
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from io import StringIO
from types import CodeType
from typing import Any

from ..reading.calls import Bindings, Names, bindings_of, names_of
from ..reading.scopes import bound_by
from ..rewriting.source import Origin, Source, futures_of

PREFIX = "library:"


@dataclass(frozen=True)
class _Place:
    """An outermost function of a file: within classes, and in no other function."""

    first: int
    last: int
    classes: tuple[str, ...]
    indented: bool


@dataclass(eq=False)
class _File:
    lines: list[str]
    places: dict[tuple[str, int], _Place] = field(default_factory=dict)
    futures: list[ast.stmt] = field(default_factory=list)
    imported: list[str] = field(default_factory=list)  # names
    bindings: Bindings = field(default_factory=dict)


class Texts:
    def __init__(self) -> None:
        self._files: dict[str, _File | None] = {}
        self._sources: dict[tuple[str, str, int], Source | None] = {}
        self.names = Names()  # that hold for all texts: the getters

    def source(self, code: CodeType, home: dict[str, Any]) -> Source | None:
        """The outermost function that this code is of, or is in; None if its text does not give this code."""
        outermost = code.co_qualname.partition(".<locals>")[0]
        file = self._file(code.co_filename, home)
        if file is None:
            return None
        line = self._first_line(file, outermost, code.co_firstlineno)
        if not line:  # some decorators give a function the name under which they put it into a class
            outermost, line = code.co_name, code.co_firstlineno
        found = self.at(code.co_filename, home, outermost, line)
        return found if found is not None and code in found.codes else None

    def at(self, filename: str, home: dict[str, Any], qualname: str, line: int) -> Source | None:
        key = filename, qualname, line
        if key not in self._sources:
            file = self._file(filename, home)
            place = file and file.places.get((qualname, line))
            module = str(home.get("__name__", ""))
            name = f"{module}:{qualname}:{line}"
            known = self.names.getters
            self._sources[key] = _source(filename, file, place, name, known) if file and place else None
        return self._sources[key]

    def bindings(self, filename: str, home: dict[str, Any]) -> Bindings:
        """What the names of a file's module are bound to."""
        file = self._file(filename, home)
        return file.bindings if file else {}

    def _first_line(self, file: _File, qualname: str, line: int) -> int:
        """Of the outermost function with this name that this line is in."""
        lines = [one.first for (name, _), one in file.places.items() if name == qualname and one.first <= line]
        return max(lines, default=0)

    def _file(self, filename: str, home: dict[str, Any]) -> _File | None:
        if filename not in self._files:
            lines = linecache.getlines(filename, home)
            try:
                self._files[filename] = _read("".join(lines)) if lines else None
            except (SyntaxError, ValueError, RecursionError):
                self._files[filename] = None
        return self._files[filename]


@lru_cache(maxsize=64)  # a process that has several programs, one after another, reads the same files
def _read(text: str) -> _File:
    tree = ast.parse(text)
    outer = list(_outer(tree.body))
    file = _File(StringIO(text).readlines(), futures=[one for one in tree.body if isinstance(one, ast.ImportFrom)])
    imports = [one for one in outer if isinstance(one, ast.Import | ast.ImportFrom)]
    file.imported = sorted({name for one in imports for name in bound_by(one)} - {"*"})
    file.bindings = bindings_of(_parts(outer))
    functions = list(_functions(outer, ()))
    methods = bindings_of(node for node, classes in functions if classes)
    file.bindings |= {name: is_plain for name, is_plain in methods.items() if name.startswith(".")}
    for node, classes in functions:
        first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
        name = ".".join((*classes, node.name))
        file.places[name, first] = _Place(first, node.end_lineno or first, classes, node.col_offset > 0)
    return file


def _outer(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, and those in its branches."""
    for one in body:
        yield one
        if isinstance(one, ast.If | ast.Try | ast.With | ast.For | ast.While):
            for name in ("body", "orelse", "finalbody"):
                yield from _outer(getattr(one, name, []))
            for handler in getattr(one, "handlers", []):
                yield from _outer(handler.body)


def _parts(outer: list[ast.stmt]) -> Iterator[ast.AST]:
    """What may bind a name of the module."""
    for one in outer:
        yield one
        targets = [*getattr(one, "targets", []), getattr(one, "target", None)]
        targets += [item.optional_vars for item in getattr(one, "items", [])]
        for target in filter(None, targets):
            yield from ast.walk(target)


def _functions(
    body: Any, classes: tuple[str, ...]
) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, tuple[str, ...]]]:
    for one in body:
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            yield one, classes
        elif isinstance(one, ast.ClassDef):
            yield from _functions(list(_outer(one.body)), (*classes, one.name))


@lru_cache(maxsize=256)
def _source(filename: str, file: _File, place: _Place, name: str, getters: frozenset[str]) -> Source:
    """As deep as it stands in its file, so that its code has the columns that it had."""
    around = [f"{' ' * depth}class {one}:\n" for depth, one in enumerate(place.classes)]
    if place.indented and not around:
        around = ["if True:\n"]
    text = "".join(file.lines[place.first - 1 : place.last])
    tree = ast.parse("".join(around) + text)
    ast.increment_lineno(tree, place.first - 1 - len(around))
    names = names_of(file.bindings, bindings_of(ast.walk(tree)), getters=getters)
    # With the text's hash: at places of another text nothing must go on.
    uid = f"{PREFIX}{name}:{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    flags = futures_of(ast.Module(file.futures, []))
    if file.imported:  # a method's call is compiled otherwise if its object is a module that is imported at the top
        imported = [ast.alias(one, None) for one in file.imported]
        tree.body.insert(0, ast.fix_missing_locations(ast.Import(imported)))
    source = Source(filename, tree, flags, lambda one: f"{uid}:{one.qualname}:{one.key[1]}")
    module, qualname, _ = name.split(":")
    source.origin = Origin(module, qualname, text)
    source.prepare(names)
    return source
