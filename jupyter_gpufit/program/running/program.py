"""The program that a cell is in a worker: it can be left at a safe point, and entered there in another process."""

from __future__ import annotations

import ast
import linecache
import os
import pickle
import sys
from collections.abc import Callable, Container
from copy import deepcopy
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from ...errors import CannotArrive, NotHere
from ...system.objects import of_type
from ..libraries import own_resume
from ..libraries.gain import LeftShare
from ..libraries.library import Library
from ..libraries.texts import PREFIX
from ..reading.calls import Names, bindings_of, names_of
from ..reading.scopes import definitions, is_async, last_set
from ..rewriting.source import FUTURE_FLAGS, Codes, Origin, Source
from ..rewriting.units import cell_form, cell_stops
from ..values import PROGRAM, Arrived, FrameRecord, Unit, hidden
from .activation import Activation
from .frame import Frame
from .functions import Functions, entered
from .ran_texts import RanTexts
from .standing import Taken, activations, record_of
from .unread import is_unread

_ELSEWHERE = Unit("", "generator", "a generator", "", {}, {})
_TIMED = "<timed exec>"  # what %%time calls the part of a cell that it runs


class Program:
    """One in a worker, and in the namespace as `__gf__`."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.namespace = namespace
        self.pending = False  # asked for at each safe point; set from any thread
        self.at_safe_point: Callable[[], None] = lambda: None
        self.at_loops_end: Callable[[FrameType], None] | None = None  # an activation's outermost one is over
        self.on_resumed: Callable[[], None] = lambda: None
        self.notes: list[str] = []  # why something cannot be checkpointed, for the user
        self.on_note: Callable[[str], None] = self.notes.append
        self.library = Library(self, self._register, self.unit_of, self._note)
        self.functions = Functions(self._register, self._unknown, self.at_home, self.library.gain)
        self.ran = RanTexts(self._keep, self._register)
        self.scratch: str | None = None  # a directory for what a library's own resume needs; else the system's
        self.flags = 0  # those with which the shell compiles the cell
        self._texts: dict[str, str] = {}
        self._tree: ast.Module | None = None  # the cell's own, as it was
        self._pickled: tuple[str, bytes] | None = None
        self._flags: dict[str, int] = {}
        self._sources: dict[str, Source] = {}
        self._names: Names | None = None  # once a cell has started, or was saved, they stay the same
        self._units: dict[str, Unit] = {}
        self._unit_of = Codes()
        self._changed = Codes()  # code of the user's -> the same with generators rewritten
        self._generators: dict[str, Source] = {}
        self._records: list[FrameRecord] = []
        self._cell = ""
        self._standing: Any = None
        self._taken: list[Taken] = []  # at this safe point
        self._pid = os.getpid()

    def __reduce__(self) -> Any:
        # The user's code sends functions to processes of its own (joblib, ray): those stay there to their end.
        return Program, ({},)

    # Before the cell -------------------------------------------------------------------------------------------------

    def learn(self, filename: str, text: str) -> None:
        """The text of an earlier cell, whose functions this one may call."""
        self._texts[filename] = text

    def saved(self) -> dict[str, Any]:
        """What a new process needs before it can make the objects that were saved: plain data."""
        # The cell's tree and not its text: %%time and other magics run a part of it as if it were a cell.
        if self._pickled is None and self._tree is not None:
            self._pickled = self._cell, pickle.dumps(self._tree, 5)
        cell = self._pickled
        names = self._names or Names()
        known = {"plain": sorted(names.plain), "getters": sorted(names.getters)}
        return {"texts": self._texts, "run": self.ran.saved(), "cell": cell, "flags": self._flags, **known}

    def remember(self, saved: dict[str, Any]) -> None:
        self._texts.update(saved["texts"])
        self._flags.update(saved["flags"])
        self._names = Names(frozenset(saved["plain"]), frozenset(saved.get("getters", ())))
        self.library.know(self._names)
        for filename in self._texts:
            self._prepare(filename, self._parsed(filename))
        self.ran.remember(saved.get("run", {}))
        if saved["cell"] is not None:
            filename, tree = saved["cell"]
            self._prepare(filename, pickle.loads(tree))
        self.namespace[PROGRAM] = self

    def resume(self, records: list[FrameRecord]) -> None:
        """Let the cell go on at these records. The list is emptied: what they hold must not live on in it."""
        self._records = records

    def cell(self, tree: ast.Module, filename: str) -> ast.Module:
        """The cell as it is to be run; the same, if it cannot be rewritten or need not be."""
        if self._tree is not None:
            return tree  # something that the cell itself gives the shell to run
        own = deepcopy(tree) if any(one.generator for one in definitions(tree)) else tree
        try:
            made = self._rewritten(tree, filename)
            if made is not tree:
                self._tree = own
            return made
        except Exception as error:
            assert not self._records, "a cell that was saved must be as it was"
            self.on_note(f"The cell cannot be checkpointed: it could not be rewritten ({error}).")
            return own

    def _rewritten(self, tree: ast.Module, filename: str) -> ast.Module:
        if not tree.body:
            return tree
        if is_async(tree):
            self.on_note("The cell cannot be checkpointed: it awaits something itself.")
            return tree
        parsed = {name: self._parsed(name) for name in self._texts if name not in self._sources}
        known = [*parsed.values(), tree]
        self.library.imported_by(known)
        if self._names is None:
            bindings = bindings_of(node for each in known for node in ast.walk(each))
            self._names = names_of(bindings, getters=self.library.getters())
            self.library.know(self._names)
        names = self._names
        if not cell_stops(tree, names):
            return tree
        self._flags[filename] = self.flags & FUTURE_FLAGS
        self._look_at_flags(parsed)
        for name, one in parsed.items():
            self._prepare(name, one)
        self.ran.prepare()
        self._prepare(filename, tree)
        made, unit = cell_form(tree, filename, names, entering=bool(self._records))
        # A look whether it compiles, as IPython will do it: statement by statement.
        compile(made, filename, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | self._flags[filename], dont_inherit=True)
        self._units[unit.uid], self._cell = unit, filename
        self.library.begin()
        # The cell's own functions come of its tree; those of earlier cells are there already.
        self._exchange({code: new for code, new in self._changed.known.items() if code.co_filename != filename})
        self.namespace[PROGRAM] = self
        return made

    def _parsed(self, filename: str) -> ast.Module:
        return ast.parse(self._texts[filename], filename)

    def _look_at_flags(self, files: Container[str]) -> None:
        """With what flags earlier cells were compiled: IPython keeps the `from __future__` of one for the next."""
        for one in _functions_of(files):
            self._flags[one.__code__.co_filename] = one.__code__.co_flags & FUTURE_FLAGS

    def _prepare(self, filename: str, tree: ast.Module) -> None:
        source = self._sources[filename] = Source(filename, tree, self._flags.get(filename, 0))
        source.prepare(self._names or Names())
        self.add(source)

    def _keep(self, name: str, source: Source) -> None:
        self._sources[name] = source
        self.add(source)

    def add(self, source: Source) -> None:
        self.functions.learn(source)
        for code, unit in source.generators.items():
            self._register(code, unit)
            self._generators[unit.uid] = source
        for code, new in source.changed.items():
            self._changed.add(code, new)

    def _register(self, code: CodeType, unit: Unit) -> None:
        self._units[unit.uid] = unit
        self._unit_of.add(code, unit)

    def _note(self, text: str) -> None:
        """By `on_note` as it is then: who runs the program gives it another one."""
        self.on_note(text)

    def _unknown(self, function: FunctionType) -> LeftShare | None:
        """A function that the cell calls is not among the user's with a loop; asked once for each."""
        code = function.__code__
        source = self._sources.get(code.co_filename)
        if source is not None and code not in source.codes and code.co_name in source.looping:
            self.on_note(f"{code.co_name}() was made in another way than its cell says: it has no safe points.")
        return self.library.function(code, function.__globals__)

    def at_home(self, home: dict[str, Any]) -> None:
        """Let rewritten code find the program among the globals of a function that no module has."""
        if home is not self.namespace:
            self.ran.at_home(home, self)

    def _exchange(self, codes: dict[CodeType, CodeType]) -> None:
        """Give functions another code, wherever they are."""
        for one in _functions_of({code.co_filename for code in codes} | ({_TIMED} if codes else set())):
            if (new := codes.get(one.__code__)) is not None:
                one.__code__ = new
                self.at_home(one.__globals__)

    def leave(self) -> None:
        """The cell has ended: what goes back to the notebook is the user's own."""
        self._exchange({new: code for code, new in self._changed.known.items()})
        self.library.end()
        self._tree = None
        self.ran.leave(self)
        for name in [name for name in self.namespace if hidden(name)]:
            del self.namespace[name]

    # What rewritten code calls ---------------------------------------------------------------------------------------

    def enter(self, uid: str) -> Frame:
        return Frame(self, self._units.get(uid, _ELSEWHERE))

    def enter_cell(self, uid: str) -> Frame:
        frame = Frame(self, self._units[uid])
        if self._records:
            assert self._records[0].uid == uid, "another cell was saved"
            record = self._records.pop(0)
            frame.load(record, self._records)
            self.namespace.update(frame.saved())
        return frame

    def reenter(self, arrived: tuple[FrameRecord, list[FrameRecord]] | Arrived) -> Frame:
        if isinstance(arrived, Arrived):
            found = arrived.record
            assert found is not None, "a generator was asked for a value before all was there"
            frame = Frame(self, self._units[found.uid])
            frame.load_generator(found, arrived.rest)
            return frame
        record, rest = arrived
        frame = Frame(self, self._units[record.uid])
        frame.load(record, rest)
        return frame

    def seen(self, names: Any) -> Any:
        """locals() or dir(), as the user would see it."""
        if isinstance(names, list):
            return [name for name in names if not hidden(name)]
        return {name: value for name, value in names.items() if not hidden(name)}

    # At a safe point -------------------------------------------------------------------------------------------------

    def stop(self, standing: FrameType | None = None) -> None:
        """`standing`: where to look outwards from, if a library is in between."""
        if os.getpid() != self._pid:
            return  # a process that the cell forked
        self._standing = standing or sys._getframe(1)
        try:
            self.at_safe_point()
        finally:
            self._standing, self._taken = None, []

    def can_be_left(self) -> bool:
        """Whether all that runs could be, as far as is known without looking at what it holds."""
        if os.getpid() != self._pid:
            return False
        try:
            activations(sys._getframe(1), self._unit_of.get, self.namespace, self._outer_of)
        except NotHere:
            return False
        return True

    def running(self, generator: Any) -> FrameRecord | None:
        """The record of a generator that is computing its next value, at this safe point."""
        return next((record for record, _, frame in self._taken if frame is generator.gi_frame), None)

    def records(self) -> list[FrameRecord]:
        """All activations, outermost first; NotHere if one of them cannot be left."""
        self._taken = [(record_of(*one), *one) for one in self._activations()]
        return [record for record, *_ in self._taken]

    def is_unread(self, obj: Any) -> bool:
        """Whether nothing has an object but variables, all of which get another value before they are read."""
        return is_unread(obj, self._taken, self._text_of, [one.tree for one in self._sources.values()])

    def _text_of(self, unit: Unit) -> list[ast.stmt]:
        if unit.kind == "cell":
            return self._tree.body if self._tree is not None else []
        if unit.kind == "text":
            return self._sources[unit.uid.rsplit(":", 1)[0]].tree.body
        found = (
            one.node.body
            for source in self._sources.values()
            for one in source.definitions
            if source.uid(one) == unit.uid
        )
        return next(found, None) or self.library.text_of(unit)

    def took_long(self, code: CodeType, seconds: float) -> bool:
        """Note that a function takes that long; whether from its next call on it can be left midway."""
        found = self.functions.known(code)
        if found is None or not found.of_library:
            return False
        was_short, found.is_short = found.is_short, False
        found.seconds += seconds
        return was_short

    def where(self) -> str:
        activations = self._activations()
        frame, _ = activations[-1]
        assert frame.pc is not None
        line = f"line {frame.unit.lines[frame.pc]}"
        place = f"{line} of the cell" if frame.unit.kind == "cell" else f"{line}, in {frame.unit.name}"
        proofs = self.library.proofs(frame.unit for frame, _ in activations)
        return place + own_resume.where(frame.callee) + (f" ({proofs})" if proofs else "")

    def place(self) -> tuple[tuple[str, int | None], ...]:
        """Where each activation stands, the same in every iteration."""
        return tuple((frame.unit.uid, frame.pc) for frame, _ in self._activations())

    def origins(self) -> list[Origin]:
        """Of the libraries' functions that it stands in."""
        return self.library.origins(frame.unit for frame, _ in self._activations())

    def exact(self) -> bool:
        """Whether what is saved now goes on to the bit."""
        return not any(own_resume.goes_on_by_it(frame.callee) for frame, _ in self._activations())

    def where_set(self, variable: str, function: str = "") -> str:
        """The line that last gives a variable of the cell, or of a function, its value; empty if none does."""
        if not function:
            line = self._tree and last_set(self._tree.body, variable)
            return f"line {line} of the cell" if line else ""
        found = (one for source in self._sources.values() for one in source.definitions if one.node.name == function)
        lines = [line for one in found if (line := last_set(one.node.body, variable))]
        return f"line {lines[-1]}, in {function}()" if lines else ""

    def _outer_of(self, text: FrameType) -> FrameType | None:
        """Who runs a text."""
        unit = self.unit_of(text.f_code)
        assert unit is not None
        return self.ran.outer[unit.depth - 1]

    def _activations(self) -> list[tuple[Activation, Any]]:
        return activations(self._standing, self._unit_of.get, self.namespace, self._outer_of)

    def arrived(self) -> None:
        self.on_resumed()

    # Generators ------------------------------------------------------------------------------------------------------

    def unit_of(self, code: CodeType) -> Unit | None:
        found: Unit | None = self._unit_of.get(code)
        return found

    def unit_as_written(self, code: CodeType, home: dict[str, Any]) -> Unit | None:
        """That of a generator's code as its text has it; None if that is not known."""
        source = self.library.source(code, home) or self._own(code.co_filename, code.co_flags & FUTURE_FLAGS)
        return None if source is None else source.generators.get(source.changed.get(code, code))

    def as_written(self, unit: Unit) -> CodeType:
        """A generator's code as its text has it."""
        source = self._generators.get(unit.uid) or self.library.known(unit.uid)
        units = ((code, source.generators.get(new)) for code, new in source.changed.items())
        return next(code for code, one in units if one is not None and one.uid == unit.uid)

    def unit_named(self, uid: str, flags: int) -> Unit:
        """Of a generator; `flags`: with which its text was compiled."""
        if uid not in self._units:
            filename, name, _ = uid.rsplit(":", 2)
            if self._own(filename, flags) is None:
                if not uid.startswith(PREFIX):
                    why = f"The text of {name}(), a generator in use, is not known here. Run the cell again."
                    raise CannotArrive("", why)
                self.library.source_of(uid)
        return self._units[uid]

    def _own(self, filename: str, flags: int) -> Source | None:
        """A cell's, of which nobody has told yet."""
        if filename not in self._sources and (lines := linecache.cache.get(filename)) and len(lines) == 4:
            if lines[1] is not None:
                return None  # a file
            self._texts[filename], self._flags[filename] = "".join(lines[2]), flags
            self._prepare(filename, self._parsed(filename))
            self.namespace[PROGRAM] = self
        return self._sources.get(filename)

    def generator(self, uid: str, cells: dict[str, Any], home: Any) -> FunctionType:
        """A function that makes a generator which goes to the place of its argument."""
        source = self._generators.get(uid) or self.library.source_of(uid)
        one = next(one for one in source.definitions if one.generator and source.uid(one) == uid)
        code = self.functions.entering_code(source, one)
        variables: dict[str, Any] = vars(home) if isinstance(home, ModuleType) else home
        if variables is None:
            return entered(code, self.library.home_of(uid) or self.namespace, cells)
        self.at_home(variables)
        return entered(code, variables, cells)


def _functions_of(files: Container[str]) -> list[FunctionType]:
    """All that were defined there."""
    if not files:
        return []
    return [one for one in of_type(FunctionType) if one.__code__.co_filename in files]
