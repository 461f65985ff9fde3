"""The values of a reply, less the objects among them that cannot be made here.

A class may write a pickle that it cannot read, or read it in the worker only. One such object must not cost the others:
then all is read once more, step by step, and an Unavailable stands where an object cannot be made, as where one could
not be sent.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import CannotArrive
from ..ids import id_of
from ..opening import Opener
from ..stream import GraphUnpickler, a_thing, seed
from ..unavailable import Unavailable


@dataclass(frozen=True)
class Lost:
    """An object that could not be made, and what stands in its place."""

    number: int  # of the value that it was first met in
    stand_in: Unavailable
    why: str


def read_values(
    stream: bytes,
    count: int,
    given: Sequence[Any],
    opener: Opener,
    buffers: Sequence[int],
    *,
    and_one: bool = False,
) -> tuple[list[Any], list[Lost]]:
    """Every value, and what was lost of them. Raises CannotArrive if the stream itself is damaged.

    `and_one`: there is one more, which is not worth the others; None where it cannot be read.
    """
    try:
        unpickler = GraphUnpickler(stream, given, opener, buffers)
        values = [unpickler.load() for _ in range(count + and_one)]
        return values, []
    except Exception:
        values, lost = _read_forgivingly(stream, count, given, opener, buffers)
        return [*values, None] if and_one else values, lost


def _read_forgivingly(
    stream: bytes, count: int, given: Sequence[Any], opener: Opener, buffers: Sequence[int]
) -> tuple[list[Any], list[Lost]]:
    unpickler = _Forgiving(stream, given, opener, buffers)
    values = []
    try:
        unpickler.load()  # the seed
        for unpickler.number in range(count):
            values.append(unpickler.load())
    except Exception as error:
        raise CannotArrive("", f"{type(error).__name__}: {error}.") from error
    return values, unpickler.lost


_Step = Callable[[Any], None]
_PURE: Any = pickle._Unpickler  # the one in Python: its single steps can be caught


def _or_stand_in(step: _Step) -> _Step:
    """A step that makes an object; `args` and, beneath it, what makes the object are on the stack."""

    def forgiving(self: _Forgiving) -> None:
        maker, args = self.stack[-2:]
        height = len(self.stack)
        try:
            step(self)
        except Exception as error:
            del self.stack[height - 2 :]
            self.stack.append(self.lose(_made_by(maker), error, args))
            if _fills(maker):
                self.ruin(args[0], error)

    return forgiving


def _or_nothing(step: _Step) -> _Step:
    """A step that puts something into the object beneath it; where that fails, the object counts as not made."""

    def forgiving(self: _Forgiving) -> None:
        try:
            step(self)
        except Exception as error:
            self.ruin(self.stack[-1], error)

    return forgiving


class _Forgiving(_PURE):  # type: ignore[misc]
    dispatch = {
        **_PURE.dispatch,
        **{code[0]: _or_stand_in(_PURE.dispatch[code[0]]) for code in (pickle.REDUCE, pickle.NEWOBJ)},
        **{
            code[0]: _or_nothing(_PURE.dispatch[code[0]])
            for code in (pickle.APPEND, pickle.APPENDS, pickle.SETITEM, pickle.SETITEMS, pickle.ADDITEMS, pickle.BUILD)
        },
    }

    def __init__(self, stream: bytes, given: Sequence[Any], opener: Opener, buffers: Sequence[int]) -> None:
        self._given = iter(given)
        self.number = 0
        self.lost: list[Lost] = []
        super().__init__(io.BytesIO(seed(len(given)) + stream), buffers=map(opener.view, buffers))

    def persistent_load(self, pid: tuple[Any] | None) -> Any:
        return next(self._given) if pid is None else id_of(pid)

    def find_class(self, module: str, name: str) -> Any:
        try:
            return super().find_class(module, name)
        except Exception as error:
            return self.lose(f"{module}.{name}", error, ())

    def lose(self, thing: str, error: Exception, inside: Any) -> Unavailable:
        """What stands for an object, noted unless it failed for want of another one."""
        stand_in = Unavailable(thing)
        if not any(isinstance(one, Unavailable) for one in inside):
            why = f"{thing} that cannot be made in this process ({type(error).__name__}: {error})."
            self.lost.append(Lost(self.number, stand_in, why))
        return stand_in

    def ruin(self, obj: Any, error: Exception) -> None:
        """Let nothing that is still to come see an object that is half made."""
        if isinstance(obj, Unavailable):
            return
        stand_in = self.lose(a_thing(obj), error, ())
        for stack in (self.stack, *self.metastack):
            stack[:] = [stand_in if one is obj else one for one in stack]
        for number in [number for number, one in self.memo.items() if one is obj]:
            self.memo[number] = stand_in


def _made_by(maker: Any) -> str:
    return a_thing(maker) if isinstance(maker, Unavailable) else f"what {getattr(maker, '__qualname__', maker)} makes"


def _fills(maker: Any) -> bool:
    """Whether it fills its first argument: of ours and cloudpickle's functions, those that do not make anything."""
    return getattr(maker, "__name__", "").startswith(("fill_", "set_attributes", "_function_setst", "_class_setst"))
