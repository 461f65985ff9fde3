"""Texts that no cell is: files and texts that earlier cells ran, and those that this one runs.

Functions of the former are left and entered as the cell's own. A text that the cell itself runs, by exec(),
runpy.run_path() or %run, is one activation more: that of a module, whose variables are a dictionary's. What rewritten
code needs beside them has names of its own for each depth, for it may be the notebook's dictionary.
"""

from __future__ import annotations

import ast
import gc
import linecache
from collections.abc import Callable
from types import CodeType, FrameType, ModuleType
from typing import Any

from ...system.codes import RunText, name_of
from ..reading.calls import bindings_of, names_of
from ..rewriting.source import FUTURE_FLAGS, Source
from ..rewriting.units import text_form, text_stops
from ..values import ARRIVED, OURS, PROGRAM, FrameRecord, Unit, hidden


class RanTexts:
    def __init__(self, add: Callable[[str, Source], None], register: Callable[[CodeType, Unit], None]) -> None:
        """`add`: what learns the functions of a text."""
        self._add, self._register = add, register
        self._texts: dict[str, RunText] = {}
        self._sources: dict[str, Source] = {}
        self._are_homes = (
            False  # globals, beside the namespace, that have the program for now; nobody keeps them for it
        )
        self._codes: dict[tuple[str, bool], CodeType] = {}  # of those that run, by their units
        self._modules: dict[int, ModuleType] = {}  # whose globals they are, by their id()
        self.outer: list[FrameType | None] = []  # who runs those that run now

    # What they define ------------------------------------------------------------------------------------------------

    def learn(self, name: str, filename: str, text: str) -> None:
        """`name`: of this very text."""
        self._texts[name] = filename, text

    def saved(self) -> dict[str, RunText]:
        return self._texts

    def remember(self, saved: dict[str, RunText]) -> None:
        self._texts.update(saved)
        self.prepare()

    def prepare(self) -> None:
        for name in self._texts:
            self.source(name)

    def source(self, name: str) -> Source:
        """Prepared by its own bindings alone: what others call plain it may not, which costs a question per call."""
        if name not in self._sources:
            filename, text = self._texts[name]
            tree = ast.parse(text, filename)
            source = Source(filename, tree, uid=lambda one: f"{name}:{one.qualname}:{one.key[1]}")
            source.prepare(names_of(bindings_of(ast.walk(tree))))
            self._sources[name] = source
            self._add(name, source)
        return self._sources[name]

    def is_run(self, filename: str) -> bool:
        """Whether code is of such a text."""
        return any(file == filename for file, _ in self._texts.values())

    def home(self, variables: dict[str, Any]) -> Any:
        """The module that they are the globals of, if one was made for a text that runs."""
        return self._modules.get(id(variables), variables)

    def is_main(self, module: ModuleType) -> bool:
        return self._modules.get(id(vars(module))) is module

    def at_home(self, variables: dict[str, Any], program: Any) -> None:
        """Let rewritten code find the program among the globals of a function that no module has."""
        if PROGRAM not in variables:
            variables[PROGRAM] = program
            self._are_homes = True

    def leave(self, program: Any) -> None:
        if self._are_homes:
            gc.unfreeze()  # nobody is told of what is frozen
            for home in gc.get_referrers(program):
                if type(home) is dict and home.get(PROGRAM) is program:
                    for name in [name for name in home if hidden(name)]:
                        del home[name]
        self._are_homes = False
        self._modules.clear()

    # What runs -------------------------------------------------------------------------------------------------------

    def found(self, given: Any, flags: int) -> str | None:
        """The name of a text that can be left while it runs, of what exec() is given."""
        if type(given) is CodeType:
            filename = given.co_filename
            linecache.checkcache(filename)
            text = "".join(linecache.getlines(filename))
        elif type(given) in (str, bytes):
            filename, text = "<string>", given if type(given) is str else given.decode("utf-8", "replace")
        else:
            return None
        if flags & FUTURE_FLAGS:
            return None  # of the caller's: they hold for the text, too
        name = name_of(filename, text)
        if name not in self._texts:
            try:
                tree = ast.parse(text, filename)
                if not text_stops(tree, names_of(bindings_of(ast.walk(tree)))):
                    return None
                made = compile(tree, filename, "exec", dont_inherit=True)
            except (SyntaxError, ValueError, RecursionError):
                return None
            if type(given) is CodeType and made != given:
                return None
            self.learn(name, filename, text)
        return name if text_stops(self.source(name).tree, self.source(name).names) else None

    def run(
        self,
        name: str,
        variables: dict[str, Any],
        outer: FrameType | None,
        program: Any,
        module: ModuleType | None = None,
        records: list[FrameRecord] | None = None,
    ) -> None:
        """`outer`: who asked for it. With `records` it is entered at the place of the first of them."""
        source = self.source(name)
        had = PROGRAM in variables
        self.at_home(variables, program)
        if module is not None:
            self._modules[id(variables)] = module
        self.outer.append(outer)
        depth = len(self.outer)
        try:
            code, uid = self._code(name, source, depth, entering=records is not None)
            if records is not None:
                record = records.pop(0)
                assert record.uid == uid, "another text was saved"
                variables |= record.locals
                record.locals = {}
                variables[ARRIVED] = record, records
            del records
            exec(code, variables)
        finally:
            self.outer.pop()
            ours = [one for one in variables if one.startswith(f"{OURS}{depth}_") or one == ARRIVED]
            if not had and not source.generators:
                ours.append(PROGRAM)
            for one in ours:
                variables.pop(one, None)
            self._modules.pop(id(variables), None)

    def _code(self, name: str, source: Source, depth: int, *, entering: bool) -> tuple[CodeType, str]:
        uid = f"{name}:<text {depth}>"
        if (uid, entering) not in self._codes:
            form, unit = text_form(source.tree, source.filename, source.names, uid, depth, entering=entering)
            code = compile(form, source.filename, "exec", flags=source.flags, dont_inherit=True)
            self._register(code, unit)
            self._codes[uid, entering] = code
        return self._codes[uid, entering], uid
