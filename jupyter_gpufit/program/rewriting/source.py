"""One text and what is compiled from it.

Three kinds of code come of a function: the user's own; the running form, called in its place from rewritten code only;
and the entering form. Nobody else ever meets the last two. Generator functions alone are rewritten in place, because a
suspended generator must be one that can be saved, whoever made it.
"""

from __future__ import annotations
import __future__

import ast
import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import or_
from types import CodeType
from typing import Any

from ...system.codes import codes_inside
from ...system.packages import is_installed
from ..libraries.versions import digests_of
from ..reading.calls import Names
from ..reading.scopes import Definition, Loop, definitions, inside
from ..values import INNER, MAKER, Unit
from .nodes import clone
from .units import Shared, entering_form, function_stops, running_form, variables

Key = tuple[str, int]
_FUTURES = {  # without those that hold anyway, whose flags mean something else by now
    name: feature.compiler_flag
    for name in __future__.all_feature_names
    if (since := (feature := getattr(__future__, name)).getMandatoryRelease()) is None or since > sys.version_info
}
FUTURE_FLAGS = reduce(or_, _FUTURES.values())


@dataclass(frozen=True)
class Origin:
    """Whose text it is."""

    module: str
    qualname: str
    text: str

    @cached_property
    def digests(self) -> tuple[str, str]:
        """See library_versions; only who asks how far it is known needs them."""
        return digests_of(self.text)


class Source:
    def __init__(
        self, filename: str, tree: ast.Module, flags: int = 0, uid: Callable[[Definition], str] | None = None
    ) -> None:
        self.filename, self.tree = filename, tree
        self.flags = flags | futures_of(tree)
        self.definitions = definitions(tree)
        self.changed: dict[CodeType, CodeType] = {}  # from the user's code to that with generators rewritten in place
        self.functions: dict[CodeType, Definition] = {}  # that have a running form
        self.generators: dict[CodeType, Unit] = {}  # by their running form
        self.codes: set[CodeType] = set()  # of all its functions, as written and with generators rewritten
        self.looping: set[str] = set()  # names of functions with loops
        self.names = Names()
        self.origin: Origin | None = None  # of a library's
        self.is_librarys = is_installed(filename)
        self._uid = uid or (lambda one: f"{filename}:{one.qualname}:{one.key[1]}")
        self._shared: dict[Key, Shared] = {}

    def uid(self, one: Definition) -> str:
        return self._uid(one)

    def prepare(self, names: Names) -> None:
        """Rewrite the generators, in the tree itself, and say which functions can be resumed."""
        self.names = names
        self.looping = {one.node.name for one in self.definitions if any(isinstance(o, Loop) for o in inside(one.node))}
        written = self._compiled()
        for key, codes in written.items():
            self._shared[key] = Shared(tuple(codes[0].co_cellvars), tuple(codes[0].co_freevars))
        units = self._rewrite_generators()
        rewritten = self._compiled() if units else written
        self.codes = {code for each in (written, rewritten) for codes in each.values() for code in codes}
        for key, codes in written.items():
            self.changed |= {old: new for old, new in zip(codes, rewritten[key], strict=True) if old != new}
        self.generators = {code: unit for key, unit in units.items() for code in rewritten[key]}
        for one in self.definitions:
            if one.resumable and one.key in written and function_stops(one, names, is_librarys=self.is_librarys):
                self.functions |= dict.fromkeys([*written[one.key], *rewritten[one.key]], one)

    def _rewrite_generators(self) -> dict[Key, Unit]:
        units = {}
        for number, one in reversed(list(enumerate(self.definitions))):  # the inner ones first
            if one.generator and one.key in self._shared:
                own = clone(one.node)
                made, unit = self._form(running_form, one)
                one.node.body = made.body
                self.definitions[number] = replace(one, node=own)
                units[one.key] = unit
        return units

    def _shared_by(self, one: Definition) -> Shared:
        shared, known = self._shared[one.key], set(variables(one))
        # From Python 3.12 on also those of comprehensions are among them, which are no variables of the function.
        return replace(shared, own=tuple(name for name in shared.own if name in known))

    def running(self, one: Definition) -> tuple[CodeType, Unit]:
        made, unit = self._form(running_form, one)
        with_it = self._compiled_with(one, made)
        return _by_key(with_it)[one.key], unit

    def entering(self, one: Definition) -> tuple[CodeType, Unit]:
        made, unit = self._form(entering_form, one)
        inner = next(code for code in codes_inside(self._compiled_with(one, made)) if code.co_name == INNER)
        return _own_names(inner, one.node.name), unit

    def _form(self, form: Callable[..., tuple[ast.FunctionDef, Unit]], one: Definition) -> tuple[ast.FunctionDef, Unit]:
        shared = self._shared_by(one)
        return form(one, self.uid(one), self.filename, self.names, shared, is_librarys=self.is_librarys)

    def _compiled_with(self, one: Definition, instead: ast.FunctionDef) -> CodeType:
        """The statement that defines it, compiled with another function in its place."""
        if one.written is not None:
            changed = InPlaceOf(one.written, instead).visit(deepcopy(self.tree.body[one.top]))
            return self._compile(changed if isinstance(changed, list) else [changed])
        where = next(node for node in ast.walk(self.tree.body[one.top]) if _is_at(node, one))
        was = dict(vars(where))
        vars(where).update(vars(instead))
        try:
            return self._compile([self.tree.body[one.top]])
        finally:
            vars(where).clear()
            vars(where).update(was)

    def _compiled(self) -> dict[Key, list[CodeType]]:
        """The code of each function: of a text compiled statement by statement, as IPython does it, and of the whole.

        They differ where a function calls something of a module that the text itself imports at its top.
        """
        found: dict[Key, list[CodeType]] = {}
        for statement in self.tree.body:
            found |= {key: [code] for key, code in _by_key(self._compile([statement])).items()}
        if any(isinstance(one, ast.Import | ast.ImportFrom) for one in self.tree.body):
            for key, code in _by_key(self._compile(self.tree.body)).items():
                found[key].append(code)
        return found

    def _compile(self, body: list[ast.stmt]) -> CodeType:
        module = ast.Module(body, [])
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | self.flags
        compiled: CodeType = compile(module, self.filename, "exec", flags=flags, dont_inherit=True)
        return compiled


class InPlaceOf(ast.NodeTransformer):
    """A function in the place of a lambda: defined in front of the statement that it stands in."""

    def __init__(self, written: ast.Lambda, function: ast.FunctionDef) -> None:
        self._there = written.lineno, written.col_offset
        self._function, self._is_found, self._is_placed = function, False, False

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        if (node.lineno, node.col_offset) != self._there:
            return node
        self._is_found = True
        return ast.copy_location(ast.Name(self._function.name, ast.Load()), node)

    def visit(self, node: ast.AST) -> Any:
        found = super().visit(node)
        if isinstance(node, ast.stmt) and self._is_found and not self._is_placed:
            self._is_placed = True
            return [self._function, found]
        return found


def futures_of(tree: ast.Module) -> int:
    """The compiler flags of its `from __future__` lines."""
    flags = 0
    for one in tree.body:
        if isinstance(one, ast.ImportFrom) and one.module == "__future__":
            for alias in one.names:
                flags |= _FUTURES.get(alias.name, 0)
    return flags


def _is_at(node: ast.AST, one: Definition) -> bool:
    return isinstance(node, ast.FunctionDef) and (node.name, node.lineno, node.col_offset) == (
        one.node.name,
        one.node.lineno,
        one.node.col_offset,
    )


def _by_key(code: CodeType) -> dict[Key, CodeType]:
    return {(one.co_qualname, one.co_firstlineno): one for one in codes_inside(code)}


def _own_names(code: CodeType, name: str) -> CodeType:
    """As if there were no function around it."""
    constants = tuple(_own_names(one, name) if isinstance(one, CodeType) else one for one in code.co_consts)
    own = name if code.co_name == INNER else code.co_name
    qualname = code.co_qualname.replace(f"{MAKER}.<locals>.{INNER}", name)
    return code.replace(co_consts=constants, co_name=own, co_qualname=qualname)


class Codes:
    """Code objects by value: a function that was pickled is known again when its text has been compiled.

    Hashing one takes a microsecond, so those that were seen are remembered by identity.
    """

    def __init__(self, otherwise: Callable[[CodeType, Any], Any] = lambda code, function: None) -> None:
        self.known: dict[CodeType, Any] = {}
        self._seen: dict[int, tuple[CodeType, Any]] = {}
        self._otherwise = otherwise

    def add(self, code: CodeType, value: Any) -> None:
        self.known[code] = value
        # Those that were not known are looked up anew. The others stay: what is added is of one value with them.
        self._seen = {key: found for key, found in self._seen.items() if found[1] is not None}

    def get(self, code: CodeType, function: Any = None) -> Any:
        """`function`: whose code it is, which helps to find out what it is."""
        found = self._seen.get(id(code))
        if found is None:
            value = self.known.get(code)
            if value is None:
                value = self._otherwise(code, function)
            found = self._seen[id(code)] = code, value
        return found[1]

    def asked(self, code: CodeType) -> Any:
        """What it is, if it was asked for."""
        found = self._seen.get(id(code))
        return found and found[1]
