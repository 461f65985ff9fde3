"""Generators of libraries, rewritten like the user's: those of samplers and progress bars stand in every training loop.

What is rewritten is known by a hash of its text. Another version of a library runs as it is, and cannot be saved while
such a generator is suspended; the user is told.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import sys
import textwrap
from collections.abc import Iterable
from functools import reduce
from types import FunctionType, GeneratorType
from typing import TYPE_CHECKING, Any

from .nodes import clone
from .source import FUTURE_FLAGS, Source
from .values import PROGRAM

if TYPE_CHECKING:
    from .program import Program

_UID = "library:"

# The first 16 digits of sha256 of each text, and where it was seen.
GENERATORS: dict[str, dict[str, dict[str, str]]] = {
    "torch.utils.data.sampler": {
        "RandomSampler.__iter__": {"a58dbac69fddad94": "2.13.0"},
        "SubsetRandomSampler.__iter__": {"b24ce907dda8202e": "2.13.0"},
        "WeightedRandomSampler.__iter__": {"6a6675187e8f1510": "2.13.0"},
        "BatchSampler.__iter__": {"7fe3a2e8b04f8372": "2.13.0"},
    },
    "tqdm.std": {"tqdm.__iter__": {"9a92008fc9845755": "4.70.1"}},
}


class Library:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._sources: dict[str, Source] = {}
        self._homes: dict[str, dict[str, Any]] = {}
        self._exchanged: list[tuple[FunctionType, Any]] = []
        self._wanted: set[str] = set()

    def names(self, trees: Iterable[ast.Module]) -> set[str]:
        """The names of library functions that the cell may be left in; notes which libraries it imports."""
        for tree in trees:
            for node in ast.walk(tree):
                if isinstance(node, ast.Import):
                    self._wanted.update(one.name.partition(".")[0] for one in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module:
                    self._wanted.add(node.module.partition(".")[0])
        return set()

    def begin(self) -> None:
        """Rewrite what is loaded, and what the cell is going to import."""
        for module, functions in GENERATORS.items():
            library = module.partition(".")[0]
            if module in sys.modules or library in self._wanted or library in sys.modules:
                try:
                    importlib.import_module(module)
                except ImportError:
                    continue  # the cell will say so
                for qualname, known in functions.items():
                    self._rewrite(module, qualname, known)

    def end(self) -> None:
        """Give all functions their own code back."""
        while self._exchanged:
            function, code = self._exchanged.pop()
            function.__code__ = code
        for home in self._homes.values():
            home.pop(PROGRAM, None)

    def _rewrite(self, module: str, qualname: str, known: dict[str, str]) -> None:
        function = _find(module, qualname)
        if not isinstance(function, FunctionType) or any(function is one for one, _ in self._exchanged):
            return
        if text_hash(function) not in known:
            version = getattr(sys.modules[module.partition(".")[0]], "__version__", "?")
            self._program.on_note(
                f"{module}.{qualname} of version {version} is not known: the cell cannot be checkpointed inside it."
            )
            return
        uid = self._learn(module, qualname, function)
        self._exchanged.append((function, function.__code__))
        function.__code__ = self._running(uid, function)

    def _learn(self, module: str, qualname: str, function: FunctionType) -> str:
        uid = f"{_UID}{module}:{qualname}"
        if uid not in self._sources:
            flags = function.__code__.co_flags & FUTURE_FLAGS
            source = Source(function.__code__.co_filename, _tree_of(function), flags, lambda one: uid)
            source.prepare(frozenset())
            self._sources[uid] = source
            self._homes[uid] = function.__globals__
        self._homes[uid][PROGRAM] = self._program
        return uid

    def _running(self, uid: str, function: FunctionType) -> Any:
        [(code, unit)] = [pair for pair in self._sources[uid].generators.items() if pair[1].uid == uid]
        was = function.__code__
        code = code.replace(co_firstlineno=was.co_firstlineno, co_qualname=was.co_qualname)
        assert code.co_freevars == was.co_freevars
        self._program._register(code, unit)
        return code

    # Context managers ------------------------------------------------------------------------------------------------

    def meet(self, manager: Any) -> None:
        """Before it is entered: let its generator be one that can be saved."""
        generator, function = manager.gen, manager.func
        if type(generator) is not GeneratorType or self._program.unit_of(generator.gi_code) is not None:
            return
        module, qualname = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
        if module in ("", "__main__") or _find(module, qualname) is not function:
            return
        try:
            uid = self._learn(module, qualname, function)
            code = self._running(uid, function)
        except Exception:
            return  # no text of it; it is refused when the cell is saved inside it
        twin = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
        twin.__kwdefaults__ = function.__kwdefaults__
        manager.gen = twin(*manager.args, **manager.kwds)

    # To make them again ----------------------------------------------------------------------------------------------

    def source_of(self, uid: str) -> Source:
        if uid not in self._sources:
            module, _, qualname = uid.removeprefix(_UID).partition(":")
            importlib.import_module(module)
            self._learn(module, qualname, _find(module, qualname))
        return self._sources[uid]

    def home_of(self, uid: str) -> dict[str, Any] | None:
        return self._homes.get(uid)


def text_hash(function: FunctionType) -> str:
    return hashlib.sha256(inspect.getsource(function).encode()).hexdigest()[:16]


def _find(module: str, qualname: str) -> Any:
    try:
        found = reduce(getattr, qualname.split("."), sys.modules[module])
    except (AttributeError, KeyError):
        return None
    return inspect.unwrap(found) if callable(found) else None


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
