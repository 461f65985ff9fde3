"""Code of libraries, and of modules beside the notebook: rewritten when it is called, as the cell's own is beforehand.

A function that rewritten code calls is rewritten where its text is at hand and it is worth while; see library_texts and
gain. A generator is rewritten where rewritten code makes it. Those of samplers and progress bars are made deep inside
other code and stand in every training loop: they are rewritten in place, and are their own again when the cell has
ended. So is, from its next use on, a generator that a checkpoint has met and could not save.
"""

from __future__ import annotations

import ast
import gc
import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from types import CodeType, FunctionType, GeneratorType, ModuleType
from typing import Any

from ...errors import CannotArrive
from ...system.packages import is_installed, is_of_the_user
from ..reading.calls import Bindings, Names, is_never_left, names_of
from ..reading.scopes import Definition, mangled
from ..rewriting.source import Origin, Source
from ..values import PROGRAM, Unit
from .gain import Gain, LeftShare
from .texts import PREFIX, Texts
from .versions import IN_PLACE, Grade, grade_of, weakest

DEPTH = 4  # of what a loop goes over: a progress bar's loader's batch sampler's sampler


class Library:
    def __init__(
        self,
        program: object,
        register: Callable[[CodeType, Unit], None],
        unit_of: Callable[[CodeType], Unit | None],
        note: Callable[[str], None],
    ) -> None:
        """`program`: what rewritten code asks, wherever it is."""
        self._program, self._register, self._unit_of, self._note = program, register, unit_of, note
        self.gain = Gain()
        self._texts = Texts()
        self._sources: dict[str, Source] = {}  # by the uids of their functions
        self._homes: dict[str, dict[str, Any]] = {}
        self._exchanged: list[tuple[FunctionType, CodeType]] = []
        self._twins: dict[CodeType, FunctionType | None] = {}
        self._prepared: set[type] = set()  # types of what loops go over
        self._told: set[str] = set()
        self._wanted: set[str] = set()  # libraries that the cell imports

    def imported_by(self, trees: Iterable[ast.Module]) -> None:
        """Note which libraries the cells import."""
        for tree in trees:
            for node in ast.walk(tree):
                if isinstance(node, ast.Import):
                    self._wanted.update(one.name.partition(".")[0] for one in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module:
                    self._wanted.add(node.module.partition(".")[0])

    def begin(self) -> None:
        """Rewrite what is loaded, and what the cell is going to import: to import these draws no random numbers."""
        for module, functions in IN_PLACE.items():
            library = module.partition(".")[0]
            if module in sys.modules or library in self._wanted or library in sys.modules:
                try:
                    importlib.import_module(module)
                except Exception:
                    continue  # whatever it is, the cell will meet it
                for qualname in functions:
                    self._rewrite_in_place(_find(module, qualname))

    def tell(self, text: str) -> None:
        """Say something of a library, once."""
        if text not in self._told:
            self._told.add(text)
            self._note(text)

    def end(self) -> None:
        """Give all functions their own code back."""
        while self._exchanged:
            function, code = self._exchanged.pop()
            function.__code__ = code
        for home in self._homes.values():
            home.pop(PROGRAM, None)

    def know(self, names: Names) -> None:
        """What is known of names before the cell begins holds for all texts."""
        self._texts.names = names

    def getters(self) -> frozenset[str]:
        """The names of properties in the user's modules that are loaded by now, if they can be left midway."""
        found: Bindings = {}
        for name, module in list(sys.modules.items()):
            home = vars(module) if type(module) is ModuleType else {}
            file = home.get("__file__")
            if isinstance(file, str) and is_of_the_user(file) and not is_never_left(name) and _has_properties(home):
                found |= self._texts.bindings(file, home)
        return names_of(found).getters

    # Functions -------------------------------------------------------------------------------------------------------

    def function(self, code: CodeType, home: dict[str, Any]) -> LeftShare | None:
        """What a function is whose code this is, if it can be left midway, or is a generator that can."""
        package = package_of(home)
        is_generator = bool(code.co_flags & inspect.CO_GENERATOR)
        if not package or not (is_generator or not is_never_left(package) and self.gain.affords(package)):
            return None
        with self.gain.rewriting(package):
            source = self._source(code, home)
        if source is None:
            return None
        if code in source.changed:
            return LeftShare(source, next(one for one in source.definitions if _is_of(code, one)), of_library=True)
        one = source.functions.get(code)
        return None if one is None else LeftShare(source, one, of_library=True)

    def source(self, code: CodeType, home: dict[str, Any]) -> Source | None:
        """Of a package's code."""
        return self._source(code, home) if package_of(home) else None

    def _source(self, code: CodeType, home: dict[str, Any]) -> Source | None:
        try:
            source = self._texts.source(code, home)
        except Exception as error:  # a text that nobody has foreseen must not end a training
            self.tell(f"{code.co_qualname}() of {home.get('__name__')} cannot be left midway: {error!r}.")
            return None
        if source is not None:
            self._learn(source, home)
        return source

    def _learn(self, source: Source, home: dict[str, Any]) -> None:
        home[PROGRAM] = self._program
        for one in source.definitions:
            uid = source.uid(one)
            if uid not in self._sources:
                self._sources[uid], self._homes[uid] = source, home
        for code, unit in source.generators.items():
            self._register(code, unit)

    # Generators ------------------------------------------------------------------------------------------------------

    def prepare(self, value: Any, depth: int = DEPTH) -> None:
        """Rewrite the generators that going over an object makes: a loader's sampler's, a dataset's."""
        own = getattr(value, "__dict__", None)
        if type(own) is not dict:
            return
        if type(value) not in self._prepared:
            self._prepared.add(type(value))
            method = getattr(type(value), "__iter__", None)
            if type(method) is FunctionType and inspect.isgeneratorfunction(method):
                self._rewrite_in_place(method)
        if depth:
            for part in list(own.values()):
                if hasattr(type(part), "__iter__"):
                    self.prepare(part, depth - 1)

    def _rewrite_in_place(self, function: Any) -> bool:
        if not isinstance(function, FunctionType) or any(function is one for one, _ in self._exchanged):
            return False
        code = function.__code__
        source = self._source(code, function.__globals__)
        if source is None or code not in source.changed:
            return False
        self._exchanged.append((function, code))
        function.__code__ = source.changed[code]
        return True

    def met(self, generator: Any) -> bool:
        """A generator that could not be saved; whether the next one that its function makes can be."""
        module = str(generator.gi_frame.f_globals.get("__name__", ""))
        function = _find(module, generator.gi_code.co_qualname)
        is_its = isinstance(function, FunctionType) and function.__code__ is generator.gi_code
        return is_its and self._rewrite_in_place(function)

    def is_ours(self, generator: Any) -> bool:
        """Whether it was rewritten, and so can be saved where it stands."""
        return self._unit_of(generator.gi_code) is not None

    def remade(self, generator: Any) -> Any:
        """A generator of any library that has not begun, as one that can be saved; or itself."""
        code = generator.gi_code
        if self.is_ours(generator) or inspect.getgeneratorstate(generator) != inspect.GEN_CREATED:
            return generator
        home = generator.gi_frame.f_globals
        # A nested function is another one each time, with cells of its own.
        twin = (
            self._twin(code, home) if "<locals>" not in code.co_qualname else self._nested_twin(generator, code, home)
        )
        return generator if twin is None else _called_alike(twin, generator.gi_frame.f_locals)

    def meet(self, manager: Any) -> None:
        """A @contextmanager that is about to be entered."""
        if type(manager.gen) is GeneratorType:
            manager.gen = self.remade(manager.gen)

    def _twin(self, code: CodeType, home: dict[str, Any]) -> FunctionType | None:
        if code not in self._twins:
            self._twins[code] = self._made_twin(code, home)
        return self._twins[code]

    def _nested_twin(self, generator: Any, code: CodeType, home: dict[str, Any]) -> FunctionType | None:
        made = [one for one in gc.get_referents(generator) if type(one) is FunctionType and one.__code__ is code]
        return self._twin_of(made[0], home) if len(made) == 1 and package_of(home) else None

    def _made_twin(self, code: CodeType, home: dict[str, Any]) -> FunctionType | None:
        module = str(home.get("__name__", ""))
        function = _find(module, code.co_qualname) if module != "__main__" else None
        if not isinstance(function, FunctionType) or function.__code__ is not code:
            return None
        return self._twin_of(function, home)

    def _twin_of(self, function: FunctionType, home: dict[str, Any]) -> FunctionType | None:
        code = function.__code__
        source = self._source(code, home)
        if source is None or code not in source.changed:
            return None
        return FunctionType(source.changed[code], home, function.__name__, None, function.__closure__)

    # To make them again ----------------------------------------------------------------------------------------------

    def source_of(self, uid: str) -> Source:
        if uid not in self._sources:
            module, qualname, line, *_ = uid.removeprefix(PREFIX).split(":")
            home = vars(importlib.import_module(module))
            filename = str(home.get("__file__"))
            function = _find(module, qualname)
            if isinstance(function, FunctionType):  # torch puts objects in the place of some modules
                home, filename = function.__globals__, function.__code__.co_filename
            source = self._texts.at(filename, home, qualname, int(line))
            if source is not None:
                self._learn(source, home)
        return self.known(uid)

    def known(self, uid: str) -> Source:
        if uid not in self._sources:
            module, qualname, *_ = uid.removeprefix(PREFIX).split(":")
            why = f"{qualname}() of {module} is not what it was when the checkpoint was taken."
            raise CannotArrive("", f"{why} Put back the version that was there, or run the cell again.")
        return self._sources[uid]

    def home_of(self, uid: str) -> dict[str, Any] | None:
        return self._homes.get(uid)

    def text_of(self, unit: Unit) -> list[ast.stmt]:
        source = self._sources.get(unit.uid)
        found = (one.node.body for one in source.definitions if source.uid(one) == unit.uid) if source else iter(())
        return next(found, [])

    # What is known of them -------------------------------------------------------------------------------------------

    def origins(self, units: Iterable[Unit]) -> list[Origin]:
        """Of those that packages have, and not the user's own modules."""
        found = [source for unit in units if (source := self._sources.get(unit.uid)) is not None]
        return [one.origin for one in found if one.origin is not None and is_installed(one.filename)]

    def proofs(self, units: Iterable[Unit]) -> str:
        """ "skorch 1.4.0: tested", of each library: by that of these functions of which least is known."""
        grades: dict[str, list[Grade]] = {}
        for one in self.origins(units):
            library = one.module.partition(".")[0]
            grade = grade_of(one.module, one.qualname, one.digests, _version(library))
            grades.setdefault(library, []).append(grade)
        return ", ".join(f"{one} {_version(one)}: {weakest(found)}" for one, found in grades.items())


def read_ahead() -> None:
    """Read and rewrite now what every program begins with: those of this process, and of its forks, then need not."""
    library = Library(None, lambda code, unit: None, lambda code: None, lambda text: None)
    library.begin()
    library.end()


def _version(library: str) -> str:
    return str(getattr(sys.modules.get(library), "__version__", "?"))


def package_of(home: Mapping[str, Any]) -> str:
    """Empty for the notebook's own, and for what no module has."""
    name = str(home.get("__name__", ""))
    found = sys.modules.get(name)
    return name.partition(".")[0] if name != "__main__" and getattr(found, "__dict__", None) is home else ""


def _has_properties(home: dict[str, Any]) -> bool:
    classes = [one for one in list(home.values()) if isinstance(one, type) and one.__module__ == home["__name__"]]
    return any(isinstance(held, property | cached_property) for one in classes for held in list(vars(one).values()))


def _is_of(code: CodeType, one: Definition) -> bool:
    return (code.co_name, code.co_firstlineno) == (one.node.name, one.key[1])


def _find(module: str, qualname: str) -> Any:
    found, owner = sys.modules.get(module), ""
    for name in qualname.split("."):
        found, owner = getattr(found, mangled(name, owner), None), name
    return inspect.unwrap(found) if callable(found) else None


def _called_alike(function: FunctionType, values: Mapping[str, Any]) -> Any:
    """Call it with the arguments that another call of it has been given."""
    code = function.__code__
    plain, named = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    names = list(code.co_varnames)
    args = [values[name] for name in names[:plain]]
    keywords = {name: values[name] for name in names[plain:named]}
    if code.co_flags & inspect.CO_VARARGS:
        args += values[names[named]]
        named += 1
    if code.co_flags & inspect.CO_VARKEYWORDS:
        keywords |= values[names[named]]
    return function(*args, **keywords)
