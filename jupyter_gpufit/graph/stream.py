"""The graph as a pickle stream that both sides can continue.

The pickler numbers every object it writes and the unpickler every object it reads, in the same order. So both sides
know, without a word in the stream, which of their objects correspond; and a reply is a further stretch of the *same*
stream, in which an object that came from the kernel is a number. Objects 0 and 1 are the namespace, and the table of
bytes.
"""

from __future__ import annotations

import io
import pickle
import re
import sys
import time
from collections import ChainMap
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any, Protocol

import cloudpickle

from ..errors import CannotArrive
from ..system.objects import module_of
from .code import names_used, reduce_code
from .deep import InPython, is_deep
from .ids import id_of, in_place_of, stored_ids
from .kind import Kind, Reduced, TookTooLong, kind_of
from .modules import Here, Homes, dictionaries, may_hold_one, met
from .opening import Opener
from .put_back import Lost
from .refusals import is_widget, stays
from .run_texts import RunTexts
from .sources import Source, source_of
from .spans import Recorder
from .unavailable import unavailable

Namespace = dict[str, Any]

# These names are IPython's own; every shell has its own.
# What IPython keeps of earlier cells, and Python of a module; not what a cell names so itself, as `__file__`.
HISTORY = re.compile(
    r"_+|_\d+|_i+|_i\d+|_[iod]h|__(?!\w+__$).*"
    r"|__(name|doc|package|loader|spec|builtins?|annotations|annotate|conditional_annotations|warningregistry|gf\w*)__"
)
_OF_THE_SHELL = frozenset({"get_ipython", "exit", "quit", "open"})
_MAKES_THEM = {"IPython", "ipykernel", "io", "_io", __name__.partition(".")[0]}
_BY_TEXT = frozenset({"eval", "exec", "globals"})  # with these, a function reads names that only running tells


def is_the_shells(name: str, value: Any) -> bool:
    """Whether a name is the shell's own; what a cell has given that name (`In = 784`) is the notebook's."""
    if name in _OF_THE_SHELL:
        return str(getattr(value, "__module__", "")).partition(".")[0] in _MAKES_THEM
    if name == "In":
        return type(value) is list and value[:1] == [""]
    return name == "Out" and type(value) is dict and all(type(number) is int for number in value)


class Around(Protocol):
    """What travels around the variables; surroundings/ has it."""

    name: str  # under which it stands in the namespace
    lost: list[Lost]  # what must be there before anything is opened

    def standing(self, ids: Container[int]) -> list[Here]:
        """Of these objects, those that the other process has, too."""

    def fill(self, pickler: GraphPickler) -> None:
        """Add what has to go along with what is written by now."""

    def leave(self) -> None:
        """Add no more than must be: what was added cannot travel."""


@dataclass(frozen=True)
class Refusal:
    """An object that cannot go to another process."""

    name: str  # the variable that was being written
    obj: Any
    why: str


def _with_dictionaries(memo: dict[int, Any], known: Iterable[Any] = ()) -> dict[int, Any]:
    """With those of modules, as if they had been written."""
    for one in (*(contents for _, contents in dictionaries()), *known):
        memo.setdefault(id(one), (len(memo), one))
    return memo


class GraphPickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Writes objects by their Kinds. What cannot travel is noted in `refusals` and an Unavailable goes instead."""

    is_snapshot = False
    dispatch_table = ChainMap({CodeType: reduce_code}, cloudpickle.Pickler.dispatch_table)

    def __init__(self, namespace: Namespace, recorder: Recorder, origins: dict[int, tuple[int, Any]], *, back: bool):
        self.stream = io.BytesIO()
        super().__init__(self.stream, protocol=5, buffer_callback=self._take_buffer)
        self.namespace, self.recorder, self.back = namespace, recorder, back
        self.memo = origins
        self.name = ""
        self.wanted: dict[str, str] = {}  # names that functions use, and the function
        self.by_text = False  # a function may read any name
        self.refusals: list[Refusal] = []
        self.remarks: list[str] = []  # what goes another way: sentences
        self.places: dict[str, tuple[int, int]] = {}  # of each name's part in the stream: where it begins and ends
        self.buffers: list[int] = []
        self.anchored: list[int] = []  # numbers of objects at its beginning that the other process finds by itself
        self.sources: dict[str, Source] = {}
        self.run_texts = RunTexts(namespace)
        self.kinds: dict[type, Kind] = {}
        self.clean: set[int] = set()  # ids of objects that lead to nothing that cannot travel
        self.not_by_name: dict[int, str] = {}  # why what went as a part of something cannot as a variable, by id
        self.graphs_stay: list[Any] = []  # tensors that go without what they were computed of
        self.made_anew: set[int] = set()  # ids of tensors that a module computes again before each forward
        self.until: float | None = None  # of time.monotonic(): when whoever tries something out gives up
        self._globals: dict[str, dict[int, str]] = {}
        self.homes = Homes()

    passed_on: tuple[type[BaseException], ...] = (RecursionError, MemoryError, TookTooLong)  # not an object's fault

    def stored_ids(self) -> dict[int, Any]:
        """The objects whose id() is a number in what was written, by that number."""
        return stored_ids(self.stream.getvalue(), self.memo.copy)

    def take_ids(self, ids: Mapping[int, Any]) -> None:
        """Write these numbers as the id() of their objects. Only where there are any: it costs a call per object."""
        if ids:
            self.persistent_id = in_place_of(ids)

    def kind(self, cls: type) -> Kind:
        return kind_of(cls, self.kinds)

    def stays(self, obj: Any) -> bool:
        """Whether this very object cannot travel, whatever it leads to."""
        return stays(obj) and not (self.back and is_widget(type(obj)))

    def reducer_override(self, obj: Any) -> Reduced:
        if self.until is not None and time.monotonic() > self.until:
            raise TookTooLong
        try:
            return self.kind(type(obj)).reduce(obj, self)
        except self.passed_on:
            raise
        except Exception as error:  # whatever a library's __reduce__ may raise
            return self.refuse(obj, f"{a_thing(obj)}, which cannot be copied to another process ({error}).")

    def dump(self, obj: Any) -> None:
        if is_deep():
            InPython(self, self.stream, self._take_buffer).dump(obj)
        else:  # cloudpickle's own would hide the RecursionError, for which there is a remedy
            pickle.Pickler.dump(self, obj)

    def anchor(self, there: Sequence[Here]) -> None:
        """Begin the stream with objects that the other process has, and finds by itself."""
        if not there:
            return
        stand_ins = [_Anchor(find, args) for _, find, args in there]
        self.dump(stand_ins)
        memo = self.memo.copy()
        for stand_in, (obj, _, _) in zip(stand_ins, there, strict=True):
            number, _ = memo[id(stand_in)]
            self.anchored.append(number)
            if id(obj) in memo:
                continue  # as the notebook's own namespace, which a library's shell leads to: it has a number already
            del memo[id(stand_in)]
            memo[id(obj)] = (number, obj)
        self.memo = memo

    def known(self) -> dict[int, Any]:
        """By their id(): the objects that are written."""
        memo: dict[int, Any] = self.memo.copy()
        return memo

    def missing(self, there: Sequence[Here], around: Around | None, came: Iterable[Any] = ()) -> list[Here]:
        """What it has written, and must only name: the other process has its own. It is not `there` by now.

        `came`: objects that have a number anyway.
        """
        with self.stream.getbuffer() as written:
            modules = may_hold_one(written)
        if around is None and not modules:
            return []  # to copy the memo takes longer than to write it
        known = self.memo.copy()
        for obj in (*(one for one, _, _ in there), *came):
            known.pop(id(obj), None)
        # Modules' first: much of what was written is only in them.
        return (met(known) if modules else []) or ([] if around is None else around.standing(known))

    def beside(self) -> GraphPickler:
        """One that knows what this one has written, to try out what can be: a stream cannot take anything back."""
        trial = GraphPickler(self.namespace, Recorder(), _with_dictionaries(self.memo.copy()), back=self.back)
        trial.until, trial.homes = self.until, self.homes
        return trial

    def only_tries(self, known: Iterable[Any] = ()) -> None:
        """Nobody will read the stream: whatever is known to travel need not be written."""
        self.memo = _with_dictionaries(self.memo.copy(), known)

    def reduce_as_cloudpickle_does(self, obj: Any) -> Reduced:
        return super().reducer_override(obj)

    def reduce_by_value(self, fn: FunctionType) -> Reduced:
        """A function of which it is known that no module has it; cloudpickle would ask each of them."""
        reduced: Reduced = self._dynamic_function_reduce(fn)
        return reduced

    def refuse(self, obj: Any, why: str) -> Reduced:
        self.refusals.append(Refusal(self.name, obj, why))
        return unavailable, (a_thing(obj),)

    def want(self, code: CodeType, function: str) -> None:
        """Note the notebook's names that a function uses: they have to travel, too."""
        self.want_names(names_used(code), function)

    def want_names(self, names: Iterable[str], function: str) -> None:
        for name in names:
            if name not in self.namespace:
                self.by_text |= name in _BY_TEXT
            elif not HISTORY.fullmatch(name) and not is_the_shells(name, self.namespace[name]):
                self.wanted.setdefault(name, function)

    def want_class(self, cls: type) -> None:
        """Note the name of a class of the notebook that an object leads to: `torch.save` looks for it there."""
        if self.namespace.get(cls.__qualname__) is cls:
            self.wanted.setdefault(cls.__qualname__, cls.__qualname__)

    def take_source(self, filename: str, code: CodeType | None = None) -> None:
        """Send the text of a cell along with a function that it defined; of another text, if the code proves it."""
        if filename not in self.sources and (found := source_of(filename)) is not None:
            self.sources[filename] = found
        elif code is not None and filename not in self.sources and not self.back:
            self.run_texts.take(code)

    def kept_home(self, fn: Any) -> Any:
        """The globals of a function that no module has, or their module, where all that share them go on sharing."""
        return None

    def name_in_module(self, obj: Any, module: str) -> str | None:
        """The name under which a module itself holds this very object, as `dataclasses` holds its MISSING."""
        if module not in self._globals:
            found = sys.modules.get(module)
            contents = vars(found) if isinstance(found, ModuleType) and module not in ("", "__main__") else {}
            self._globals[module] = {id(value): name for name, value in list(contents.items())}
        return self._globals[module].get(id(obj))

    def home_of(self, obj: Any) -> str | None:
        """A module that has it under its name, where the one that it names has not."""
        return self.homes.of(obj)

    def _take_buffer(self, buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < 4096:
            return True  # in the stream
        self.buffers.append(self.recorder.number(_address(raw), raw.nbytes, raw, writable=not raw.readonly))
        return False


class _Anchor:
    """Stands in the stream for an object that the other process finds by itself."""

    __slots__ = ("_reduced",)

    def __init__(self, find: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._reduced = find, args

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self._reduced


class GraphUnpickler(pickle.Unpickler):
    """Reads a stream whose first objects are given. The next ones come from the stream."""

    def __init__(self, graph: bytes, given: Sequence[Any], opener: Opener, buffers: Sequence[int]) -> None:
        self._given = iter(given)
        stream = io.BytesIO(seed(len(given)) + graph)
        super().__init__(stream, buffers=map(opener.view, buffers))
        self.load()

    def persistent_load(self, pid: tuple[Any] | None) -> Any:
        return next(self._given) if pid is None else id_of(pid)

    def find_class(self, module: str, name: str) -> Any:
        try:
            return super().find_class(module, name)
        except (ImportError, AttributeError) as error:
            raise CannotArrive("", f"it needs {module}.{name}, and that fails with: {error}.") from error

    def objects(self) -> list[Any]:
        """Every object of the stream so far, by number."""
        memo: dict[int, Any] = self.memo.copy()
        return [memo[number] for number in range(len(memo))]


def origins_by_id(objects: Sequence[Any], replaced: Container[int]) -> dict[int, tuple[int, Any]]:
    """A pickler's memo in which the objects of a stream are known, but for those that are sent anew, by their id().

    A number that is not to be used again still takes its place: the next number is the memo's size.
    """
    origins: dict[int, tuple[int, Any]] = {}
    for number, obj in enumerate(objects):
        if id(obj) in origins or id(obj) in replaced:
            obj = object()
        origins[id(obj)] = (number, obj)
    return origins


def seed(count: int) -> bytes:
    """A pickle that does nothing but number `count` given objects: persistent_load, memoize, drop."""
    return b"\x80\x05" + b"NQ\x940" * count + b"N."


def a_thing(obj: Any) -> str:
    name = type(obj).__name__ if module_of(type(obj)) in ("", "builtins", "__main__") else _full_name(type(obj))
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name} object"


def _full_name(cls: type) -> str:
    return f"{module_of(cls)}.{cls.__qualname__}".lstrip(".")


def _address(raw: memoryview) -> int:
    import numpy  # large buffers come from libraries built on it

    return int(numpy.frombuffer(raw, numpy.uint8).__array_interface__["data"][0])
