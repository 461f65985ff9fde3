"""Runs a cell as a worker's shell does, and lets it cross from one program into another at any of its safe points.

The pickler here knows what these tests need, and no more; tests/checkpoint has the real one.
"""

from __future__ import annotations

import ast
import functools
import gc
import io
import linecache
import pickle
import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CellType, FunctionType, GeneratorType
from typing import Any

import cloudpickle

from jupyter_gpufit.errors import NotHere
from jupyter_gpufit.graph import midway
from jupyter_gpufit.graph.kinds import iterations
from jupyter_gpufit.graph.kinds.functions import make_cached_property
from jupyter_gpufit.program import Program, generators, hidden

FILE = "<cell 7>"


class Left(BaseException):
    """The process would be gone by now."""


@dataclass
class Ran:
    """What a run of a cell shows for itself."""

    log: list[Any]
    shown: list[Any]  # the values displayed
    values: dict[str, Any]
    error: list[tuple[str, int, str]] = field(default_factory=list)  # where, as a traceback has it
    points: int = 0
    notes: list[str] = field(default_factory=list)


def plain(text: str) -> Ran:
    namespace = _namespace()
    return _run(known(text), namespace, None)


def rewritten(text: str, earlier: str = "") -> Ran:
    """From its beginning to its end, with a safe point asked for at every iteration."""
    world = World(earlier)
    return world.run(text)


def at_points(text: str, earlier: str = "", most: int = 10**9) -> int:
    """Save the cell at its safe points and let it end in new worlds; returns how many could be saved.

    With more than `most` of them, some evenly spread ones are tried.
    """
    whole = _plain_after(text, earlier)
    once = World(earlier).run(text)
    _same(whole, once, "rewritten")
    count = 0
    for point in range(1, once.points + 1, max(1, -(-once.points // most))):
        saved = World(earlier).until(text, point)
        if isinstance(saved, bytes):
            count += 1
            _same(whole, World.from_saved(saved).run(text), f"from point {point} of {once.points}")
    return count


def in_a_chain(text: str, earlier: str = "", gap: int = 1) -> int:
    """Save and leave again and again; returns how often."""
    whole = _plain_after(text, earlier)
    saved = World(earlier).until(text, gap)
    times = 0
    while isinstance(saved, bytes):
        times += 1
        world = World.from_saved(saved)
        try:
            saved = world.until(text, gap + 1)  # the point it stands at is asked once more
        except Ended as ended:
            _same(whole, ended.ran, f"after {times} times")
            return times
    raise AssertionError(saved)


class Ended(Exception):
    def __init__(self, ran: Ran) -> None:
        self.ran = ran


def _plain_after(text: str, earlier: str) -> Ran:
    namespace = _namespace()
    if earlier:
        exec(compile(known(earlier, "<cell 3>"), "<cell 3>", "exec", dont_inherit=True), namespace)
    return _run(known(text), namespace, None)


def _same(one: Ran, other: Ran, how: str) -> None:
    assert other.log == one.log, how
    assert other.shown == one.shown, how
    assert _texts(other) == _texts(one), how
    assert other.error == one.error, how


def _texts(ran: Ran) -> dict[str, str]:
    return {name: re.sub(r" at 0x\w+", "", repr(value)) for name, value in ran.values.items()}


def _namespace() -> dict[str, Any]:
    log: list[Any] = []
    return {"__name__": "__main__", "__builtins__": __builtins__, "log": log, "say": log.append}


def known(text: str, file: str = FILE) -> ast.Module:
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    return ast.parse(text, file)


def _run(tree: ast.Module, namespace: dict[str, Any], program: Program | None) -> Ran:
    """Statement by statement, as IPython does it."""
    shown: list[Any] = namespace.setdefault("_shown", [])
    error: list[tuple[str, int, str]] = []
    try:
        for node in tree.body:
            if node is tree.body[-1] and isinstance(node, ast.Expr):
                value = eval(compile(ast.Expression(node.value), FILE, "eval", dont_inherit=True), namespace)
                if value is not None:
                    shown.append(value)
            else:
                exec(compile(ast.Module([node], []), FILE, "exec", dont_inherit=True), namespace)
    except Exception as caught:
        frames = [one for one in traceback.extract_tb(caught.__traceback__) if one.filename.startswith("<cell")]
        error = [(one.name, one.lineno or 0, one.line or "") for one in frames]
        error.append((type(caught).__name__, 0, str(caught)))
    if program is not None:
        program.leave()
    skipped = (FunctionType, type, GeneratorType)
    values = {
        name: value
        for name, value in namespace.items()
        if not name.startswith("__") and name not in ("log", "say", "_shown") and not isinstance(value, skipped)
    }
    assert not any(map(hidden, values))
    return Ran(namespace["log"], shown, values, error)


class World:
    """One process's worth of a cell: a namespace and its program."""

    def __init__(self, earlier: str = "") -> None:
        gc.freeze()  # of what was there before, nothing is a world's: it need not be looked through
        self.namespace = _namespace()
        self.program = Program(self.namespace)
        self.points = 0
        if earlier:
            exec(compile(known(earlier, "<cell 3>"), "<cell 3>", "exec", dont_inherit=True), self.namespace)
            self.program.learn("<cell 3>", earlier)

    @classmethod
    def from_saved(cls, saved: bytes) -> World:
        world = cls()
        known, graph = pickle.loads(saved)
        world.program.remember(known)
        world.program.resume(Unpickler(graph, world).records)
        return world

    def run(self, text: str, ask: Callable[[], None] | None = None) -> Ran:
        """`ask`: what is done at each safe point; they are counted."""

        def count() -> None:
            self.points += 1

        return self._run(text, ask or count)

    def _run(self, text: str, ask: Callable[[], None]) -> Ran:
        self.program.at_safe_point = ask
        self.program.pending = True
        ran = _run(self.program.cell(known(text), FILE), self.namespace, self.program)
        ran.points, ran.notes = self.points, self.program.notes
        return ran

    def until(self, text: str, point: int) -> bytes | str:
        """What is saved at this safe point, or why nothing can be; Ended if the cell ends before."""
        found: list[bytes | str] = []

        def ask() -> None:
            self.points += 1
            if self.points == point and not found:
                try:
                    found.append(pickle.dumps((self.program.saved(), Pickler.saved(self))))
                except NotHere as error:
                    found.append(error.why)
                raise Left

        try:
            ran = self._run(text, ask)
        except Left:
            self.program.leave()
            return found[0]
        if found:
            return found[0]
        raise Ended(ran)


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self, stream: io.BytesIO, world: World) -> None:
        super().__init__(stream, protocol=5)
        self.world = world
        self.waiting: list[Any] = []

    @classmethod
    def saved(cls, world: World) -> bytes:
        stream = io.BytesIO()
        pickler = cls(stream, world)
        own = ("__builtins__", "__name__")
        names = {name: one for name, one in world.namespace.items() if name not in own and not hidden(name)}
        pickler.dump((names, world.program.records()))
        return stream.getvalue()

    def persistent_id(self, obj: Any) -> Any:
        if obj is self.world.namespace:
            return "namespace"
        if obj is self.waiting:
            return "waiting"
        return "program" if obj is self.world.program else None

    def reducer_override(self, obj: Any) -> Any:
        program = self.world.program
        if type(obj).__module__ == "itertools":  # those that pickle themselves warn that they will not from 3.14 on
            refused: Any = None
            return iterations.reduce_iteration(obj, refused)
        if isinstance(obj, GeneratorType):
            if (parts := midway.expression(obj)) is not None:
                return midway.make_expression, parts
            found = generators.record(obj, program)
            if found is None:
                return generators.create, (program, "", {})
            state = self.waiting, program, found
            return generators.create, (program, found.uid, found.cells), state, None, None, prime_later
        if type(obj) is functools.cached_property:
            return make_cached_property, (obj.func, obj.attrname)
        if type(obj) is CellType:
            return CellType, (), contents(obj), None, None, fill_cell
        if type(obj) is FunctionType and obj.__globals__ is self.world.namespace:
            contained = obj.__defaults__, obj.__kwdefaults__, obj.__qualname__, obj.__dict__, obj.__annotations__
            args = obj.__code__, self.world.namespace, obj.__name__, None, obj.__closure__
            return FunctionType, args, contained, None, None, fill_function
        return super().reducer_override(obj)


def contents(cell: CellType) -> Any:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def fill_cell(cell: CellType, state: Any) -> None:
    if state:
        cell.cell_contents = state[0]


def fill_function(fn: FunctionType, state: Any) -> None:
    fn.__defaults__, fn.__kwdefaults__, fn.__qualname__, own, fn.__annotations__ = state
    fn.__dict__.update(own)


def prime_later(generator: Any, state: Any) -> None:
    waiting, program, found = state
    waiting.append(lambda: generators.prime(generator, found, program))


class Unpickler(pickle.Unpickler):
    def __init__(self, graph: bytes, world: World) -> None:
        super().__init__(io.BytesIO(graph))
        self.given: dict[str, Any] = {"namespace": world.namespace, "program": world.program, "waiting": []}
        names, self.records = self.load()
        world.namespace.update(names)
        for finish in self.given["waiting"]:
            finish()

    def persistent_load(self, name: str) -> Any:
        return self.given[name]
