"""The surroundings among the variables: out with a cell, and back.

    kernel:  with outward(namespace, texts): ship        worker:  arrived(namespace)
    worker:  with back(namespace, came): reply           kernel:  arrived(namespace)

What is mentioned by the variables, or by the cell, goes along, and what that needs; other libraries stay as they are.
What cannot travel is left out, and named where a cell could have meant it.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from signal import Signals
from threading import Thread
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from ..graph.kind import TookTooLong
from ..graph.kinds.generic import is_own
from . import added_names, magics, own_generators, own_values, process, same_objects, start, tracked, twins
from .assignments import assigned, taken_over, with_bodies
from .changes import Change, Difference, beyond, put, same, values_of, without
from .holders import Place, at, here_or_new, in_words, keeps_more, root
from .imports import Watch, import_causes, import_quietly, is_of_torch, reached_by
from .magics import Told
from .own_imports import libraries_of
from .trials import Trial

if TYPE_CHECKING:
    from ..graph.put_back import Lost
    from ..graph.stream import GraphPickler

NAME = "_gpufit_surroundings"  # among the variables that travel, and never among those the user sees
watch = Watch()  # of this process
_PATIENCE = 0.5  # seconds to try out what can travel of what libraries keep
_MORE = 1.0  # seconds more for the one that was begun in time
_WIDE = 200  # entries of a list that is looked through
_MOST = 2000  # changes; whoever has more keeps books in a module, not settings

Here = tuple[Any, Callable[..., Any], tuple[Any, ...]]  # an object, and how another process finds its own


@dataclass
class SurroundingsOut:
    """What travels around the variables, for graph/: see there."""

    found: dict[str, Any]  # stands in the namespace under `name`, and is filled when the variables are written
    texts: Sequence[str] = ()  # of the notebook's cells
    imports: Container[str] = ()  # packages that the cell imports
    magics: Collection[str] | None = None  # names of magics that it uses; None: it uses none at all
    came: Came | None = None  # on the way back: what was here before the cell
    name: str = NAME
    whole: bool = True
    settings: list[twins.Twin] = field(default_factory=list)  # read first: while it is packed, nothing is collected
    left: list[str] = field(default_factory=list)  # sentences on what does not travel
    lost: list[Lost] = field(default_factory=list)  # attributes of modules, which may not have them there
    wholes: set[Place] = field(default_factory=set)  # what travels as variables do

    def standing(self, ids: Container[int]) -> list[Here]:
        """Of these objects, those that every process has that imports the same modules."""
        found: list[Here] = []
        for number in watch.numbers():
            holder = watch.holder(number) if number in ids else None
            if holder is None or isinstance(holder.obj, (type, ModuleType)) or self._whole(holder.place):
                continue
            if not _finds_itself(holder.obj):
                found.append((holder.obj, here_or_new, (*holder.place, type(holder.obj))))
        return found

    def fill(self, pickler: GraphPickler) -> None:
        """Add what has to go along with what is written by now."""
        self.found.clear()
        # Whoever needs an attribute that a module has lost need not be known: it was imported after that module.
        self.lost = [
            (place[0], name, value) for place, name, value in assigned(self.texts, pickler.namespace) if not place[1]
        ]
        self.found["process"] = start.outward() if self.came is None else start.changed(self.came.process)
        if self.came is None:
            self.found["imports"] = {by: sorted(changed) for by, changed in watch.caused.items()}
            self.found["tracked"] = tracked.of_process(self._mentions(pickler))
        self.found["settings"] = self.settings
        self.found["signals"] = self._signals(pickler)
        self.found["drew"] = sorted(watch.drew | watch.drew_before)
        self.found["root logger"] = logging.root  # no variable refers to it
        self.found["reached"] = sorted(reached_by(self.texts, pickler.namespace))
        self.found["magics"] = self._magics(pickler)
        self.found["taken"] = list(self._taken_over(pickler)) if self.whole else []
        self.found["changes"] = list(self._changes(pickler)) if self.whole else []
        self.found["drawn from"] = own_generators.states(watch, self.found.get("packages", ()))
        self.found["still"] = same_objects.still(self.came.restored) if self.came is not None else []

    def leave(self) -> None:
        """Without what has changed: it proved to be more than can travel."""
        self.whole = False
        self.wholes.clear()

    def _whole(self, place: Place) -> bool:
        """Whether it is in a value that travels as a variable does."""
        module, steps = place
        return any((module, steps[:depth]) in self.wholes for depth in (1, 2))

    def _signals(self, pickler: GraphPickler) -> dict[int, Any]:
        then = {} if self.came is None else self.came.signals
        trial, found = Trial(pickler), {}
        for number, handler in process.signals().items():
            if then.get(number) == handler:
                continue
            if why := trial.why_not(handler):
                self.left.append(f"The handler of {Signals(number).name} does not travel: it is {why}")
            else:
                found[number] = handler
        return found

    def _magics(self, pickler: GraphPickler) -> list[Told]:
        if self.magics is None or not self.whole:
            return []
        trial, found = Trial(pickler), []
        for told in magics.read(self.magics):
            if why := trial.why_not(told):
                self.left.append(f"The magic %{told[1]} of an earlier cell does not travel: it needs {why}")
            else:
                found.append(told)
        return found

    def _taken_over(self, pickler: GraphPickler) -> Iterator[Change]:
        trial = Trial(pickler)
        for change in taken_over(self.texts, pickler.namespace):
            if why := trial.why_not(change):
                self.left.append(f"{in_words(change[0])} has what an earlier cell had replaced, {why}")
            else:
                yield change

    def _changes(self, pickler: GraphPickler) -> Iterator[Change]:
        mentioned = self._mentions(pickler)
        needed = watch.packages(mentioned) | {name for name in own_values.packages() if mentioned(name)}
        needed |= {root(name) for name in own_values.used_by(needed)}
        needed |= libraries_of(needed)
        self.found["packages"] = sorted(needed)
        yield from self._of_own_modules(needed, pickler)
        candidates: list[tuple[Change, bool]] = []
        now = watch.differences()
        before = {} if self.came is None else self.came.differences
        for number in dict.fromkeys((*now, *before)):
            holder = watch.holder(number)
            if holder is None or not (is_of_torch(holder) or root(holder.place[0]) in needed):
                continue
            difference = now.get(number)
            if any("cache" in str(key).lower() for _, key in holder.place[1]):
                continue  # it is filled again, and may be large
            if self._whole(holder.place) or same(difference, before.get(number)):
                continue
            difference = beyond(before.get(number), difference, holder.picture)
            if difference is None or (keeps_more(holder.obj, holder.picture) and not _of_the_notebook(difference)):
                continue
            candidates.append(((holder.place, difference), is_of_torch(holder)))
        for place, name, value in added_names.methods() if mentioned("pandas") else ():
            if self.came is None or value not in self.came.methods:
                candidates.append(((place, ("names", ({name: value}, []))), False))
        self.found["assigned"] = []
        for place, name, value in assigned(self.texts, pickler.namespace):
            self.found["assigned"].append((place, name))
            change: Change = place, ("names", ({name: value}, []))
            if mentioned(root(place[0])) or root(place[0]) in needed:
                candidates.append((change, True))
            elif not Trial(pickler).why_not(change):  # for a module that another one imports there
                self.found["taken"].append(change)
        trial, until, late = Trial(pickler), time.monotonic() + _PATIENCE, 0
        for (place, difference), by_cell in candidates[:_MOST]:
            if time.monotonic() > until and not by_cell:
                late += 1
                continue
            trial.until = None if by_cell else until + _MORE
            try:
                kept = self._that_travels(place, _less_lazy(place, difference), trial, by_cell)
            except TookTooLong:
                late += 1
                continue
            if kept is not None:
                yield place, kept
        if late:
            self.left.append(f"{late} changes inside of libraries do not travel: looking through them took too long.")

    def _of_own_modules(self, needed: Container[str], pickler: GraphPickler) -> Iterator[Change]:
        trial = Trial(pickler)
        self.wholes.clear()
        for place, name, value in own_values.of_modules(needed):
            at_place = place[0], (*place[1], (".", name))
            if why := trial.why_not(value):
                if self.came is None:
                    self.left.append(
                        f"{in_words(at_place)} does not travel, and is as its import makes it: it is {why}"
                    )
                continue
            self.wholes.add(at_place)
            yield place, ("names", ({name: value}, []))

    def _mentions(self, pickler: GraphPickler) -> Callable[[str], bool]:
        stream = pickler.stream.getvalue()

        def mentioned(package: str) -> bool:
            # What stands before a name in the stream may be anything, what follows is no letter.
            return package in self.imports or bool(re.search(re.escape(package.encode()) + rb"(?!\w)", stream))

        return mentioned

    def _that_travels(
        self, place: Place, difference: Difference | None, trial: Trial, by_cell: bool
    ) -> Difference | None:
        if difference is None:
            return None
        refused: set[int] = set()
        for name, value in values_of(difference):
            why = trial.why_not((name, value))
            if why:
                refused.add(id(value))
                if by_cell or self.came is None and not (_private(place, name) or _is_its_own_affair(value)):
                    where = in_words(
                        (place[0], (*place[1], *([(".", name)] if isinstance(name, str) and name else [])))
                    )
                    self.left.append(f"{where} was set in an earlier cell, and does not travel: it is {why}")
        if refused and not by_cell and difference[0] == "names" and place[1] and not isinstance(at(place), type):
            return None  # half an object is none
        kept = without(difference, refused)
        if refused and kept is not None and kept[0] == "names" and not place[1]:
            # Of what keeps a handle beside the mark that it has one, neither goes.
            anew = {name: value for name, value in kept[1][0].items() if not str(name).startswith("_")}
            kept = ("names", (anew, [])) if anew else None
        return kept


def _less_lazy(place: Place, difference: Difference) -> Difference | None:
    """Without what a package looks up for itself when it is first asked for it: from itself, by name."""
    if place[1] or difference[0] != "names":
        return difference
    anew, gone = difference[1]

    def is_lazy(name: Any, value: Any) -> bool:
        code = isinstance(value, (type, FunctionType, BuiltinFunctionType))
        return code and root(str(value.__module__)) == root(place[0]) and value.__name__ == name

    kept = {name: value for name, value in anew.items() if not is_lazy(name, value)}
    return ("names", (kept, gone)) if kept or gone else None


def _of_the_notebook(difference: Difference) -> bool:
    """Whether it brings code of the notebook, which no import brings."""
    todo = [value for _, value in values_of(difference)]
    for value in todo:
        if isinstance(value, (list, tuple, set)):
            todo += list(value)[:_WIDE] if len(todo) < _MOST else []
        elif getattr(value, "__module__", "") == "__main__":
            return True
    return False


def _is_its_own_affair(value: Any) -> bool:
    """A thread that watches for a library (tqdm starts one with its first bar), what it wraps another library in."""
    return isinstance(value, Thread) or type(value).__name__.startswith("_")


def _private(place: Place, name: Any) -> bool:
    names = [*place[0].split("."), *(key for _, key in place[1]), name]
    return any(isinstance(one, str) and one.startswith("_") for one in names)


@dataclass(frozen=True)
class Came:
    """How the surroundings were before the cell, to tell what it changed."""

    process: start.Process
    differences: dict[int, Difference | None]
    packages: frozenset[str] = frozenset()  # of which something came
    causes: dict[str, list[str]] = field(default_factory=dict)  # what an import changes in other modules
    remarks: tuple[str, ...] = ()
    reached: tuple[str, ...] = ()  # modules that cells reach through their packages
    magics: tuple[Told, ...] = ()
    taken: tuple[Change, ...] = ()  # by modules, of what earlier cells had replaced
    assigned: tuple[tuple[Place, str], ...] = ()  # attributes that earlier cells set; the cell need not know of whom
    settings: tuple[twins.Twin, ...] = ()
    signals: dict[int, Any] = field(default_factory=dict)  # their handlers
    methods: tuple[Any, ...] = ()  # that libraries have put into other libraries' classes
    restored: dict[tuple[str, str], Any] = field(default_factory=dict)  # of the user's modules, from a checkpoint


@contextmanager
def outward(
    namespace: dict[str, Any], texts: Iterable[str], imports: Container[str], magics: Collection[str] | None
) -> Iterator[SurroundingsOut]:
    """Let them stand among the variables while those are packed for a worker."""
    all_texts = tuple(one for text in texts for one in with_bodies(text))
    settings = list(twins.read(all_texts, namespace))
    yield from _standing(namespace, SurroundingsOut({}, all_texts, imports, magics, settings=settings))


@contextmanager
def back(namespace: dict[str, Any], came: Came, cell: str) -> Iterator[SurroundingsOut]:
    """Let what has changed since they `came` stand among the variables while those are packed for the notebook."""
    settings = [*twins.changed(came.settings), *twins.read((cell,), namespace)]
    yield from _standing(namespace, SurroundingsOut({}, (cell,), came.packages, came=came, settings=settings))


def _finds_itself(obj: Any) -> bool:
    """Whether it says how it is found, and its class is one that a call made and that no other process has.

    Each of qiskit's gates is the one object of such a class; the class by value would make a second of both.
    """
    cls: Any = type(obj)
    return cls.__reduce__ is not object.__reduce__ and cls.__module__ != "__main__" and is_own(cls)


def _standing(namespace: dict[str, Any], around: SurroundingsOut) -> Iterator[SurroundingsOut]:
    namespace[NAME] = around.found
    try:
        yield around
    finally:
        namespace.pop(NAME, None)


def arrived(namespace: dict[str, Any], *, in_kernel: bool = False) -> Came:
    """Take what came with variables out of the namespace and set it here; how it is now, and what could not be set."""
    found = namespace.pop(NAME, None) or {}
    remarks: list[str] = [found["failed"]] if "failed" in found else []
    causes = found.get("imports", {})
    watch.drew_before.update(found.get("drew", ()))
    import_quietly(found.get("reached", ()))
    if causes:
        import_causes(causes, remarks)
        watch.on_imported = lambda: import_causes(causes, [])
    if in_kernel:
        same_objects.put_back(found.get("changes", ()), found.get("still", ()))
    for change in found.get("changes", ()):
        remarks += filter(None, [put(change, load=not in_kernel)])
    own_generators.put(found.get("drawn from", ()), load=not in_kernel)
    tracked.put(found.get("tracked", []))
    if "process" in found:
        start.put(found["process"])
    settings = tuple(found.get("settings", ()))
    remarks += twins.put(settings, load=not in_kernel)
    process.put_signals(found.get("signals", {}))
    taken, told = tuple(found.get("taken", ())), tuple(found.get("magics", ()))
    remarks += filter(None, [*map(put_taken, taken), magics.put(told)])
    if in_kernel:
        return Came({}, {}, remarks=tuple(remarks))
    packages, reached = frozenset(found.get("packages", ())), tuple(found.get("reached", ()))
    said, signals = tuple(remarks), process.signals()
    now, assigned_before = start.now(), tuple(found.get("assigned", ()))
    came = Came(now, watch.differences(), packages, causes, said, reached, told, taken, assigned_before, settings)
    return replace(came, signals=signals, methods=tuple(value for _, _, value in added_names.methods()))


def put_taken(change: Change) -> str:
    why = put(change, load=False)
    return (
        f"{in_words(change[0])} has here what an earlier cell had replaced before it was imported: {why}" if why else ""
    )
