"""The frames in which an error was raised, for the notebook's `%debug`: where they stood, and what their names held.

    worker:  given(error, known) -> what travels        kernel:  taken_up(error, what came)

A frame belongs to the process in which it ran. What travels is what somebody who debugs looks at: its line, and of its
variables those that are the notebook's own, numbers, texts, tensors and arrays, and containers of these; of all others
the text that shows them. In the notebook a traceback is made of such frames anew, with an error for its only deed, so
that `%debug`, `%tb` and pdb.pm() stand where the error was raised. The frame of the cell has the notebook's variables.

Not covered: what a generator or a thread of its own was doing; the frames of an error's causes.
"""

from __future__ import annotations

import linecache
import os
import reprlib
import sys
from collections.abc import Container, Iterator
from dataclasses import dataclass
from types import CodeType, FrameType, TracebackType
from typing import Any

OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
MOST_FRAMES = 40  # the outermost half and the innermost half of more
MOST_THINGS = 1000  # in a container that travels
DEEPEST = 6
MOST_BYTES = 512 << 20  # of what the notebook does not have yet
LONGEST = 10_000  # characters of a text in an object's place
PLAIN = (type(None), bool, int, float, complex, str, bytes, range, slice)
HIDDEN = "_gf_"  # how the names of a cell's rewritten form begin
# Raises at its line, and says nothing of ours: `l` in a debugger lists the text of the file.
RAISES = "1 / 0"

# name, file, its first line, the line, the module whose variables are its globals, its own: None are the module's
Frame = tuple[str, str, int, int, str, "dict[str, Any] | None"]
Frames = tuple[list[Frame], dict[str, str]]  # and the texts of the files that are on no disk


@dataclass(frozen=True)
class Shown:
    """In the place of what stayed in the worker."""

    text: str

    def __repr__(self) -> str:
        return self.text


def given(error: BaseException, known: Container[int]) -> Frames:
    """Those of an error that left a cell; `known`: the id()s of what the notebook has, or gets anyway."""
    links = [link for link in _links(error.__traceback__) if not link.tb_frame.f_code.co_filename.startswith(OURS)][1:]
    if len(links) > MOST_FRAMES:
        links = links[: MOST_FRAMES // 2] + links[-MOST_FRAMES // 2 :]
    room = _Room(known, MOST_BYTES)
    frames = [_of(link, room) for link in links]
    files = dict.fromkeys(file for _, file, *_ in frames if not os.path.exists(file))
    return frames, {file: text for file in files if (text := "".join(linecache.getlines(file)))}


def taken_up(error: BaseException, came: Frames) -> None:
    """Have an error the traceback that it had, of frames that are made anew."""
    frames, texts = came
    for file, text in texts.items():
        if file not in linecache.cache:
            linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file  # None: it cannot be old
    following = None
    for frame in reversed(frames):
        made = _raised_in(*frame)
        following = TracebackType(following, made.tb_frame, made.tb_lasti, made.tb_lineno)
    error.__traceback__ = following


def _links(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _of(link: TracebackType, room: _Room) -> Frame:
    frame, code = link.tb_frame, link.tb_frame.f_code
    module = str(frame.f_globals.get("__name__", ""))
    values = None if frame.f_locals is frame.f_globals else _values(frame, room)
    return code.co_name, code.co_filename, code.co_firstlineno, link.tb_lineno or code.co_firstlineno, module, values


def _values(frame: FrameType, room: _Room) -> dict[str, Any]:
    named = frame.f_locals.items()
    return {name: room.take(value) for name, value in named if name.isidentifier() and not name.startswith(HIDDEN)}


class _Room:
    """What may travel of the values of frames."""

    def __init__(self, known: Container[int], left: int) -> None:
        self._known = known
        self._left = left  # bytes
        self._taken: set[int] = set()

    def take(self, value: Any) -> Any:
        return value if self._fits(value, [MOST_THINGS], DEEPEST) else Shown(_text(value))

    def _fits(self, value: Any, things: list[int], depth: int) -> bool:
        if id(value) in self._known or id(value) in self._taken or type(value) in PLAIN:
            return not isinstance(value, (str, bytes)) or len(value) <= MOST_BYTES >> 8
        if type(value) in (list, tuple, set, frozenset, dict):
            things[0] -= len(value)
            if depth == 0 or things[0] < 0:
                return False
            inside = [*value, *value.values()] if isinstance(value, dict) else [*value]
            return all(self._fits(one, things, depth - 1) for one in inside)
        return self._has_room(value)

    def _has_room(self, value: Any) -> bool:
        """For a tensor or an array."""
        if (size := _bytes_of(value)) is None or size > self._left:
            return False
        self._left -= size
        self._taken.add(id(value))
        return True


def _bytes_of(value: Any) -> int | None:
    """Of a plain tensor or array, with all that it is a view of; None: it is something else."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None:
        if type(value) in (torch.Tensor, torch.nn.Parameter):
            return int(value.untyped_storage().nbytes()) if value.layout is torch.strided else None
        if isinstance(value, (torch.device, torch.dtype, torch.Size)):
            return 0
    if numpy is not None:
        if type(value) is numpy.ndarray and not value.dtype.hasobject:
            return int(value.nbytes if value.base is None else getattr(value.base, "nbytes", value.nbytes))
        if isinstance(value, (numpy.generic, numpy.dtype)):
            return 0
    return None


def _text(value: Any) -> str:
    try:
        return (reprlib.repr(value) if type(value) in (list, tuple, set, frozenset, dict) else repr(value))[:LONGEST]
    except Exception as error:
        return f"<a {type(value).__name__} whose repr() failed: {type(error).__name__}>"


def _raised_in(
    name: str, file: str, first: int, line: int, module: str, values: dict[str, Any] | None
) -> TracebackType:
    """A traceback of one frame, which stands at this line of this function with these values."""
    first = min(first, line)
    code: CodeType = compile("\n" * (line - first) + RAISES, file, "exec").replace(co_name=name, co_firstlineno=first)
    there = sys.modules.get(module)
    names = vars(there) if there is not None else {"__name__": module}
    try:
        exec(code, names, names if values is None else values)
    except ZeroDivisionError as error:
        trace = error.__traceback__
    assert trace is not None and trace.tb_next is not None
    return trace.tb_next
