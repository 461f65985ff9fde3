"""A child process that serves a pipe says what it holds, where it waits for the next message; another can take it over.

So are the processes of environments: a function that makes something, and then answers messages in a loop. What such
a process holds are the variables of that function, and the states of its generators of random numbers. Another process
of the same function takes them over where it waits at the same place. Asked is it through a pipe of ours, beside its
own; it answers only while it waits, so nothing in it moves meanwhile.

Not covered: what its modules keep, a function that calls another one to receive or that looks first whether there is
something, and one that waits within a `for` or a `with`, whose state is in no variable.
"""

from __future__ import annotations

import ctypes
import dis
import fcntl
import functools
import io
import os
import pickle
import random
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import recv_handle, send_handle
from types import CodeType, FrameType, FunctionType
from typing import Any

import cloudpickle

from .simulators import Forgotten, Stood, is_own, is_simulation, take, tell
from .variables import values_of

_PATIENCE = 5.0  # seconds for a child that waits for messages; one that works is asked again
_SILENCE = 60.0  # seconds without an answer, from which on it is not at work: it waits where it does not hear us
_BEGINNING = 120.0  # seconds for one that has just begun, and may still import; it is asked once
_LONGEST = 1000  # characters of a reason
_ON_ITS_WAY = "a message of it is on its way"
_receive, _send, _poll = Connection.recv, Connection.send, Connection.poll  # a child's and a trace's are other ones


class CannotTell(Exception):
    """Why it is not known what a child holds: a sentence's end."""


class OnlyNow(CannotTell):
    """It is so at this moment only."""


class ChildEnded(CannotTell):
    """It is no more."""


class ServedChild:
    """Our end of the pipe beside a child's own."""

    def __init__(self, link: Connection) -> None:
        self._link = link
        self._asked: float | None = None  # when, if the answer is still to come; nobody waits for an earlier one

    def tell(self) -> bytes:
        """What it holds."""
        return self._ask("tell", None, _PATIENCE)

    def take(self, held: bytes) -> None:
        """Have it hold that."""
        self._ask("take", held, _BEGINNING)

    def _ask(self, verb: str, held: bytes | None, patience: float) -> bytes:
        try:
            if self._asked is not None:
                self._hear(0.0)  # who asks again and again is not held up each time
            _give(self._link, verb, held)
            self._asked = time.monotonic()
            why, said = self._hear(patience)
        except (OSError, EOFError):
            raise ChildEnded("it has ended") from None
        if why:
            raise (OnlyNow if why == _ON_ITS_WAY else CannotTell)(why)
        return said

    def _hear(self, patience: float) -> tuple[str, bytes]:
        assert self._asked is not None
        if not _poll(self._link, patience):
            if time.monotonic() - self._asked > _SILENCE:
                raise CannotTell("it does not answer")
            raise OnlyNow("it is at work")
        self._asked = None
        return _take_up(self._link)


def _give(link: Connection, word: str, held: bytes | None) -> None:
    """What is held goes in a file in memory: a pipe that nobody reads is soon full, and would stop who writes."""
    _send(link, (word, held is not None))
    if held is not None:
        with open(os.memfd_create("gpufit"), "wb") as file:
            file.write(held)
            file.flush()
            send_handle(link, file.fileno(), None)


def _take_up(link: Connection) -> tuple[str, bytes]:
    word, holds = _receive(link)
    if not holds:
        return word, b""
    with open(recv_handle(link), "rb") as file:
        file.seek(0)  # it is the writer's own open file
        return word, file.read()


def prepare(process: BaseProcess) -> ServedChild | None:
    """Have a process that has not begun listen to us, if it can: one that gets an end of a pipe."""
    here: Any = process
    if not isinstance(here._target, FunctionType) or not any(map(_is_end, (*here._args, *here._kwargs.values()))):
        return None
    ours, theirs = Pipe()
    here._target = _Listening(here._target, theirs)
    return ServedChild(ours)


def _is_end(value: Any) -> bool:
    return type(value) is Connection


class _Listening:
    """What runs in the child instead of its function: that, while it hears us. It goes there by a fork or a pickle."""

    def __init__(self, target: FunctionType, link: Connection) -> None:
        self.target, self.link = target, link

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        given = (*args, *keywords.values())
        Connection.recv = _hearing(self.target.__code__, self.link, given)  # type: ignore[method-assign, assignment]
        return self.target(*args, **keywords)


def _hearing(code: CodeType, link: Connection, given: tuple[Any, ...]) -> Callable[[Connection], Any]:
    def recv(self: Connection) -> Any:
        frame = sys._getframe(1)
        if frame.f_code is code:
            while link in wait([self, link]):
                try:
                    verb, held = _take_up(link)
                    _give(link, *_answer(verb, held, frame, self, given))
                except (OSError, EOFError):  # the parent is gone, and its own pipe says so, too
                    break
        return _receive(self)

    return recv


def _answer(
    verb: str, held: bytes, frame: FrameType, link: Connection, given: tuple[Any, ...]
) -> tuple[str, bytes | None]:
    """Why not, or what."""
    try:
        if _poll(link, 0) or _unread(link):
            raise CannotTell(_ON_ITS_WAY)
        if verb == "take":
            _take(held, frame, given)
            return "", None
        return "", _tell(frame, given)
    except CannotTell as error:
        return str(error), None
    except Exception as error:  # of the user's own objects
        return f"what it holds cannot be copied ({type(error).__name__}: {error})"[:_LONGEST], None


def _unread(link: Connection) -> int:
    """Bytes that it has sent and nobody has read yet."""
    found: int = struct.unpack("i", fcntl.ioctl(link.fileno(), termios.TIOCOUTQ, b"\0" * 4))[0]
    return found


def _tell(frame: FrameType, given: tuple[Any, ...]) -> bytes:
    if not _stands_in_variables_only(frame.f_code, frame.f_lasti):
        raise CannotTell("it waits within a `for` or a `with`")
    names = {name: value for name, value in values_of(frame).items() if not _is_made_again(value, given)}
    stream = io.BytesIO()
    _Pickler(stream, given).dump((_place(frame), names, dict(_generators())))
    return stream.getvalue()


def _is_made_again(value: Any, given: tuple[Any, ...]) -> bool:
    """What the other one has of itself: what it was given, and its function's inner functions."""
    return any(value is one for one in given) or (isinstance(value, FunctionType) and "<locals>" in value.__qualname__)


def _take(held: bytes, frame: FrameType, given: tuple[Any, ...]) -> None:
    at, names, states = _Unpickler(io.BytesIO(held), given).load()
    if at != _place(frame):
        raise CannotTell("it waits at another place")
    frame.f_locals.update(names)
    if sys.version_info < (3, 13):  # from then on, the view writes through
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
    random.setstate(states["random"])
    if "numpy" in states and "numpy" in sys.modules:
        sys.modules["numpy"].random.set_state(states["numpy"])
    if "torch" in states and "torch" in sys.modules:
        sys.modules["torch"].set_rng_state(states["torch"])


def _place(frame: FrameType) -> tuple[int | None, ...]:
    """In the source: of a `while`'s condition there are two in the code, the first one's and that of all the others."""
    return list(frame.f_code.co_positions())[frame.f_lasti // 2]


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Classes of the notebook go by their names, for the other one is a child of the same notebook."""

    def __init__(self, stream: io.BytesIO, given: tuple[Any, ...]) -> None:
        super().__init__(stream, protocol=5)
        self._given = given

    def persistent_id(self, obj: Any) -> int | None:
        return next((place for place, one in enumerate(self._given) if one is obj and not _is_atom(obj)), None)

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type | FunctionType) and vars(sys.modules["__main__"]).get(obj.__qualname__) is obj:
            return NotImplemented
        if is_simulation(type(obj)):
            return _simulated, (
                type(obj),
                _standing(obj),
                {name: one for name, one in vars(obj).items() if is_own(one)},
            )
        return super().reducer_override(obj)


def _standing(simulation: Any) -> Stood:
    try:
        return tell(simulation)
    except Forgotten as why:
        raise CannotTell(f"it has a {type(simulation).__qualname__}, and {why}") from None


def _simulated(cls: Any, stood: Stood, own: dict[str, Any]) -> Any:
    made = object.__new__(cls)
    try:
        take(made, stood)
    except Forgotten as why:
        raise CannotTell(f"it has a {cls.__qualname__}, and {why}") from None
    vars(made).update(own)
    return made


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, given: tuple[Any, ...]) -> None:
        super().__init__(stream)
        self._given = given

    def persistent_load(self, place: int) -> Any:
        return self._given[place]


def _is_atom(obj: Any) -> bool:
    return obj is None or isinstance(obj, bool | int | float | str | bytes)


def _generators() -> Iterator[tuple[str, Any]]:
    yield "random", random.getstate()
    if "numpy" in sys.modules:
        yield "numpy", sys.modules["numpy"].random.get_state()
    if "torch" in sys.modules:
        yield "torch", sys.modules["torch"].get_rng_state()


@functools.cache
def _stands_in_variables_only(code: CodeType, at: int) -> bool:
    """Whether no loop's iterator and no `with`'s end lies on the frame's stack there."""
    with suppress(AttributeError):  # private, and there in all Pythons since it is needed
        for entry in dis._parse_exception_table(code):  # type: ignore[attr-defined]
            if entry.start <= at < entry.end and entry.depth:
                return False
    loops = ((one.offset, one.argval) for one in dis.get_instructions(code) if one.opname == "FOR_ITER")
    return not any(begin < at < end for begin, end in loops)
