"""Objects that started processes when they were made, as vectors of environments do: a worker makes its own anew.

Their processes are children of this one. So the call that made such an object is kept while it lives, and is called
again there, once all has arrived. Its new processes take over what the old ones hold, where those can tell
(system/children.py), and the object its own numbers and texts; else it begins from its beginning, which is said, and
no checkpoint can hold it. One that keeps tensors, however deep, is not made anew, for what it has learned would be
lost. One that keeps none of those processes, or knows its own way (by pickle's rules), travels as it does otherwise.
At the end the notebook's own takes over what the new one and its processes came to, in the same way.
"""

from __future__ import annotations

import dis
import inspect
import re
import sys
import weakref
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from enum import Enum
from multiprocessing.process import BaseProcess
from types import CodeType, FrameType
from typing import Any, NamedTuple

from ...errors import CannotArrive, NotHere
from ...system.children import CannotTell, ChildEnded, OnlyNow, ServedChild, prepare
from ...system.objects import module_of
from ...system.variables import values_of
from ..kind import Kind, Pickler, Reduced
from . import instances
from .instances import INSTANCE, attributes, holds_refused, is_plain

_DOES = re.compile(r"(STORE|DELETE|LOAD)_(?:FAST|DEREF)")  # in an instruction's name, for each of its names
_NOT_THEIRS = frozenset({*sys.stdlib_module_names, "torch", "joblib"})  # pools and loaders have other ways


class _Call(NamedTuple):
    made: weakref.ref[Any]
    args: tuple[Any, ...]
    keywords: dict[str, Any]
    children: list[ServedChild | None]  # in the order in which they were started; None: one that cannot be asked


class _Waiting(NamedTuple):
    made: Any
    args: tuple[Any, ...]
    keywords: dict[str, Any]
    held: Sequence[bytes]  # by its processes
    own: dict[str, Any]  # attributes


class CameTo(NamedTuple):
    own: dict[str, Any]
    held: list[bytes | None]  # None: that one has ended


_calls: dict[int, _Call] = {}  # by the id() of what was made
_anew: dict[int, weakref.ref[Any]] = {}  # what was made here for another one, by its id()
_made_anew: weakref.WeakSet[type] = weakref.WeakSet()
_waiting: list[_Waiting] = []
_remarks: list[str] = []
_start = BaseProcess.start
_MANY = 10_000  # objects that are looked through for tensors; beyond, there may be some


def watch() -> None:
    """Keep the calls from now on; once in a process."""

    def start(self: BaseProcess) -> None:
        call = child = None
        with suppress(Exception):  # the user's process starts, whatever we make of it
            if (call := _note(sys._getframe(1))) is not None:
                child = prepare(self)
        _start(self)
        if call is not None:
            call.children.append(child)

    BaseProcess.start = start  # type: ignore[method-assign]


def forget() -> None:
    BaseProcess.start = _start  # type: ignore[method-assign]
    _calls.clear()


def _note(frame: FrameType | None) -> _Call | None:
    """Find who is being made, innermost, and the outermost `__init__` that does it: its call, if known."""
    made, begun, whole = None, None, False
    owners: list[Any] = []  # whose methods had it made
    while frame is not None:
        code = frame.f_code
        one = values_of(frame).get(code.co_varnames[0]) if code.co_argcount else None
        if code.co_name == "__init__" and one is not None and not whole:
            whole = made is not None and one is not made
            if not whole and module_of(type(one)).partition(".")[0] not in _NOT_THEIRS:
                made, begun = one, frame
        if code.co_varnames[:1] == ("self",) and one is not None and one is not made:
            owners.append(one)
        frame = frame.f_back
    if begun is None or not hasattr(made, "__weakref__"):
        return None
    names, more, keywords, values = inspect.getargvalues(begun)
    count = begun.f_code.co_argcount  # the names of those by keyword only come after it
    if any(name not in values for name in (*names, more, keywords) if name):
        return None  # deleted since
    if any(name in _set_in(begun.f_code) and not isinstance(values[name], str | None) for name in names[1:]):
        return None  # what it is now is not what it was called with
    key = id(made)
    gone = weakref.ref(made, lambda _: _calls.pop(key, None))
    args = *(values[name] for name in names[1:count]), *(values[more] if more else ())
    by_name = {name: values[name] for name in names[count:]} | (values[keywords] if keywords else {})
    if any(one is given for one in owners for given in (*args, *by_name.values())):
        return None  # its owner, which would live as long as the call is kept: for ever
    known = _calls.get(key)
    _calls[key] = _Call(gone, args, by_name, known.children if known is not None else [])
    return _calls[key]


def _set_in(code: CodeType) -> set[str]:
    """The names that a function binds or deletes itself. From Python 3.13 on one instruction does so with two names."""
    names = set()
    for one in dis.get_instructions(code):
        given = one.argval if isinstance(one.argval, tuple) else (one.argval,)
        names |= {name for verb, name in zip(_DOES.findall(one.opname), given, strict=False) if verb != "LOAD"}
    return names


def find(cls: type) -> Kind | None:
    if instances.find(cls) is not INSTANCE:
        return None
    known = cls in _made_anew or any(type(call.made()) is cls for call in list(_calls.values()))
    return PARENT if known else None


def reduce_parent(obj: Any, pickler: Pickler) -> Reduced:
    call = _calls.get(id(obj))
    goes_back = pickler.back and not pickler.is_snapshot
    if call is None or goes_back or _leads_to_tensors(obj) or not holds_refused(obj, pickler):
        return INSTANCE.reduce(obj, pickler)
    held: Sequence[bytes] = ()
    what = f"{pickler.name} has processes of its own ({type(obj).__qualname__})"
    try:
        held = [_held_by(child) for child in call.children]
    except CannotTell as error:
        if pickler.is_snapshot:
            with_them = "with processes of its own, of which one could not be asked"
            if isinstance(error, OnlyNow):
                raise NotHere(f"there is a {type(obj).__qualname__} {with_them}: {error}.") from None
            return pickler.refuse(obj, f"an object {with_them}: {error}.")
        why = f"one of them could not be asked what it holds: {error}"
        as_what = f"as it was then, for {why}. No checkpoint can hold it."
    else:
        as_what = "and what they hold goes along, and comes back."
    if not pickler.is_snapshot:
        pickler.remarks.append(
            f"{what}, which stay with the notebook: the training gets it made anew, by the call that made it, {as_what}"
        )
    return make_again, (type(obj), call.args, call.keywords, held, _own(obj) if held else {})


def _held_by(child: ServedChild | None) -> bytes:
    if child is None:
        raise CannotTell("it serves no pipe")
    return child.tell()


def _own(obj: Any) -> dict[str, Any]:
    """What it has noted itself since it was made; the rest belongs to its processes, or is theirs, too."""
    return {name: value for name, value in getattr(obj, "__dict__", {}).items() if _is_note(value)}


def _is_note(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_note, value))
    if type(value) is dict:
        return all(map(_is_note, (*value.keys(), *value.values())))
    return value is None or isinstance(value, bool | int | float | str | bytes | Enum)


def make_again(
    cls: Any, args: tuple[Any, ...], keywords: dict[str, Any], held: Sequence[bytes] = (), own: Any = None
) -> Any:
    """One that is nothing yet: its functions may name what arrives later."""
    made = cls.__new__(cls, *args, **keywords)
    _made_anew.add(cls)
    key = id(made)
    _anew[key] = weakref.ref(made, lambda _: _anew.pop(key, None))
    _waiting.append(_Waiting(made, args, keywords, held, own or {}))
    return made


def begin() -> None:
    """Make what has arrived, when all has."""
    while _waiting:
        made, args, keywords, held, own = _waiting.pop(0)
        try:
            made.__init__(*args, **keywords)
            if held and (call := _calls.get(id(made))) is None:  # in an estimate, where its processes are threads
                with suppress(Exception):
                    made.reset()  # as it was before the cell, most likely; what it answers is as good as any
            elif held and call is not None:
                for child, one in zip(call.children, held, strict=True):
                    if child is not None:
                        child.take(one)
                vars(made).update(own)
        except Exception as error:
            why = f"it has processes of its own, and made anew it fails ({type(error).__name__}: {error})."
            raise CannotArrive(f"A {type(made).__qualname__}", why) from error


def parent_mark(obj: Any) -> Any:
    return object() if id(obj) in _anew else INSTANCE.picture(obj)  # what its processes hold is asked once, at the end


def parent_state(obj: Any) -> Any:
    """What it came to; a text: why that is not known; None: nobody could say from the beginning, which was told."""
    call = _calls.get(id(obj))
    if id(obj) not in _anew and (call is None or not holds_refused(obj)):
        return INSTANCE.state(obj)
    if call is None or None in call.children:
        return None
    try:
        return CameTo(_own(obj), list(map(_held_or_ended, call.children)))
    except CannotTell as error:
        return f"of its processes, one could not be asked what it holds: {error}"


def _held_or_ended(child: ServedChild | None) -> bytes | None:
    try:
        return _held_by(child)
    except ChildEnded:
        return None


def fill_parent(obj: Any, state: Any) -> None:
    if state is None:
        return
    if isinstance(state, str):
        raise CannotTell(state)
    if not isinstance(state, CameTo):
        INSTANCE.fill(obj, state)
        return
    if (call := _calls.get(id(obj))) is None:
        raise CannotTell("it has no processes here")
    vars(obj).update(state.own)
    for child, one in zip(call.children, state.held, strict=True):
        if child is not None and one is not None:
            child.take(one)
    if None in state.held:
        _remarks.append(
            f"A {type(obj).__qualname__} came back; its processes have ended in the training. Those that the notebook"
            " has of it wait on, and end with the kernel."
        )


def said() -> tuple[str, ...]:
    """What is to be told of those that came back; once."""
    found = tuple(dict.fromkeys(_remarks))
    _remarks.clear()
    return found


PARENT = Kind(reduce=reduce_parent, state=parent_state, fill=fill_parent, mark=parent_mark)


def _leads_to_tensors(obj: Any) -> bool:
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    learned = (torch.Tensor, torch.nn.Module, torch.optim.Optimizer)
    todo, seen = [obj], set()
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if issubclass(type(one), learned) or len(seen) > _MANY:
            return True
        todo += _inside(one)
    return False


def _inside(obj: Any) -> Iterable[Any]:
    if isinstance(obj, dict):
        return list(obj.values())
    if isinstance(obj, list | tuple | set | frozenset | deque):
        return obj
    if not is_plain(type(obj)):
        return ()
    return [value for part in attributes(obj) for value in (part or {}).values()]
