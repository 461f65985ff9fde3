"""Generators of libraries, rewritten like the user's: those of samplers and progress bars stand in every training loop.

Those are rewritten in place, because they are made deep inside other code, and are known by a hash of their text.
Another version of a library runs as it is, and cannot be saved while such a generator is suspended; the user is told.
Loops of another version of a trainer are left by its own resume: see own_resume.
Any other generator is exchanged for a rewritten one where a loop of the cell begins with it.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping
from types import CodeType, FunctionType, GeneratorType
from typing import TYPE_CHECKING, Any

from ..reading.scopes import Definition, mangled
from ..rewriting.nodes import clone
from ..rewriting.source import FUTURE_FLAGS, Source
from ..values import PROGRAM
from .versions import CALLED, FUNCTIONS, GENERATORS, USED, Known

if TYPE_CHECKING:
    from ..running.program import Program

_UID = "library:"


class Library:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._sources: dict[str, Source] = {}
        self._homes: dict[str, dict[str, Any]] = {}
        self._exchanged: list[tuple[FunctionType, Any]] = []
        self._twins: dict[CodeType, FunctionType | None] = {}
        self._whole: dict[str, bool] = {}
        self._told: set[str] = set()
        self._wanted: set[str] = set()  # libraries that the cell imports

    def names(self, trees: Iterable[ast.Module]) -> set[str]:
        """The names of library functions that the cell may be left in; notes which libraries it imports."""
        for tree in trees:
            for node in ast.walk(tree):
                if isinstance(node, ast.Import):
                    self._wanted.update(one.name.partition(".")[0] for one in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module:
                    self._wanted.add(node.module.partition(".")[0])
        loaded = self._wanted | {module.partition(".")[0] for module in FUNCTIONS if module in sys.modules}
        return {name for library, names in CALLED.items() if library in loaded for name in names}

    def begin(self) -> None:
        """Rewrite what is loaded, and what the cell is going to import: to import these draws no random numbers."""
        for module, functions in GENERATORS.items():
            library = module.partition(".")[0]
            if module in sys.modules or library in self._wanted or library in sys.modules:
                try:
                    importlib.import_module(module)
                except Exception:
                    continue  # whatever it is, the cell will meet it
                for qualname, known in functions.items():
                    self._rewrite(module, qualname, known)

    def function(self, code: CodeType) -> tuple[Source, Definition] | None:
        """What a function is whose code this is, if it is one of those with a library's loops."""
        for module, functions in FUNCTIONS.items():
            if code.co_qualname not in functions or module not in sys.modules:
                continue
            function = _find(module, code.co_qualname)
            if not isinstance(function, FunctionType) or function.__code__ is not code:
                continue
            if not self._is_whole(module.partition(".")[0]):
                return None
            self.begin()  # it has loaded others, whose generators it will use
            source = self._sources[self._learn(module, code.co_qualname, function, self._program.names)]
            return source, source.definitions[0]
        return None

    def _is_whole(self, library: str) -> bool:
        """Whether all the texts of its loops are known: one that is not would stand between two that can be left."""
        if library not in self._whole:
            modules = {module: known for module, known in FUNCTIONS.items() if module.partition(".")[0] == library}
            modules |= {module: GENERATORS[module] for module in USED.get(library, ())}
            found = [(_find(module, name), texts) for module, known in modules.items() for name, texts in known.items()]
            self._whole[library] = all(text_hash(one) in texts for one, texts in found if one is not None)
        return self._whole[library]

    def tell(self, text: str) -> None:
        """Say something of a library, once."""
        if text not in self._told:
            self._told.add(text)
            self._program.on_note(text)

    def end(self) -> None:
        """Give all functions their own code back."""
        while self._exchanged:
            function, code = self._exchanged.pop()
            function.__code__ = code
        for home in self._homes.values():
            home.pop(PROGRAM, None)

    def _rewrite(self, module: str, qualname: str, known: Known) -> None:
        function = _find(module, qualname)
        if not isinstance(function, FunctionType) or any(function is one for one, _ in self._exchanged):
            return
        if not self._is_known(module, qualname, function, known):
            return
        uid = self._learn(module, qualname, function)
        self._exchanged.append((function, function.__code__))
        function.__code__ = self._running(uid, function)

    def _is_known(self, module: str, qualname: str, function: FunctionType, known: Known) -> bool:
        found = text_hash(function) in known
        if not found:
            version = getattr(sys.modules[module.partition(".")[0]], "__version__", "?")
            self.tell(
                f"{module}.{qualname} of version {version} is not known: the cell cannot be checkpointed inside it."
            )
        return found

    def _learn(self, module: str, qualname: str, function: FunctionType, names: frozenset[str] = frozenset()) -> str:
        # With the hash: at places of another text nothing must go on.
        uid = f"{_UID}{module}:{qualname}:{text_hash(function)}"
        if uid not in self._sources:
            flags = function.__code__.co_flags & FUTURE_FLAGS
            source = Source(function.__code__.co_filename, _tree_of(function), flags, _named(uid))
            source.prepare(names)
            self._sources[uid] = source
            self._homes[uid] = function.__globals__
        self._homes[uid][PROGRAM] = self._program
        return uid

    def _running(self, uid: str, function: FunctionType) -> Any:
        [(code, unit)] = self._sources[uid].generators.items()
        was = function.__code__
        code = code.replace(co_firstlineno=was.co_firstlineno, co_qualname=was.co_qualname)
        assert code.co_freevars == was.co_freevars
        self._program._register(code, unit)
        return code

    # Generators that the cell makes ----------------------------------------------------------------------------------

    def remade(self, generator: Any) -> Any:
        """A generator of any library that has not begun, as one that can be saved; or itself."""
        code = generator.gi_code
        if self._program.unit_of(code) is not None or inspect.getgeneratorstate(generator) != inspect.GEN_CREATED:
            return generator
        twin = self._twin(code, str(generator.gi_frame.f_globals.get("__name__", "")))
        return generator if twin is None else _called_alike(twin, generator.gi_frame.f_locals)

    def meet(self, manager: Any) -> None:
        """A @contextmanager that is about to be entered."""
        if type(manager.gen) is GeneratorType:
            manager.gen = self.remade(manager.gen)

    def _twin(self, code: CodeType, module: str) -> FunctionType | None:
        if code not in self._twins:
            self._twins[code] = self._made_twin(code, module)
        return self._twins[code]

    def _made_twin(self, code: CodeType, module: str) -> FunctionType | None:
        function = _find(module, code.co_qualname) if module != "__main__" else None
        if not isinstance(function, FunctionType) or function.__code__ is not code:
            return None
        try:
            running = self._running(self._learn(module, code.co_qualname, function), function)
        except Exception:
            return None  # its text is not at hand, or more than one function stands there
        return FunctionType(running, function.__globals__, function.__name__, None, function.__closure__)

    # To make them again ----------------------------------------------------------------------------------------------

    def source_of(self, uid: str) -> Source:
        if uid not in self._sources:
            module, qualname, _ = uid.removeprefix(_UID).split(":")
            importlib.import_module(module)
            found = self._learn(module, qualname, _find(module, qualname))
            assert found == uid, f"{qualname} of {module} is not what it was when the cell was saved"
        return self._sources[uid]

    def home_of(self, uid: str) -> dict[str, Any] | None:
        return self._homes.get(uid)


def _named(uid: str) -> Callable[[Definition], str]:
    """The function itself has the uid; those inside it have others."""
    qualname = uid.split(":")[2]
    return lambda one: uid if one.qualname == qualname else f"{uid}:{one.qualname}:{one.key[1]}"


def text_hash(function: FunctionType) -> str:
    """Empty where it has no text, or is no function of Python."""
    try:
        return hashlib.sha256(inspect.getsource(function).encode()).hexdigest()[:16]
    except (OSError, TypeError):
        return ""


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


def _tree_of(function: FunctionType) -> ast.Module:
    """Its text as a module: in its classes, for their private names, and at its lines."""
    lines, first = inspect.getsourcelines(function)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    node = tree.body[0]
    assert isinstance(node, ast.FunctionDef)
    ast.increment_lineno(node, first - 1)
    inner: ast.stmt = clone(node, decorator_list=[])
    for name in reversed(function.__qualname__.split(".")[:-1]):
        around = ast.parse(f"class {name}: pass").body[0]
        assert isinstance(around, ast.ClassDef)
        around.body = [inner]
        inner = ast.copy_location(around, inner)
    return ast.Module([inner], [])
