"""Objects that started processes when they were made, as vectors of environments do: a worker makes its own anew.

Their processes are children of this one, and nobody can read what they hold. So the call that made such an object is
kept while it lives, and is called again there: it begins from its beginning, which is said. One that keeps tensors is
not made anew, for what it has learned would be lost.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any, NamedTuple

from ..kind import Kind, Pickler, Reduced
from .instances import INSTANCE

_NOT_THEIRS = frozenset({*sys.stdlib_module_names, "torch", "joblib"})  # pools and loaders have other ways


class _Call(NamedTuple):
    made: weakref.ref[Any]
    args: tuple[Any, ...]
    keywords: dict[str, Any]


_calls: dict[int, _Call] = {}  # by the id() of what was made
_start = BaseProcess.start


def watch() -> None:
    """Keep the calls from now on; once in a process."""

    def start(self: BaseProcess) -> None:
        _note(sys._getframe(1))
        _start(self)

    BaseProcess.start = start  # type: ignore[method-assign]


def forget() -> None:
    BaseProcess.start = _start  # type: ignore[method-assign]
    _calls.clear()


def _note(frame: FrameType | None) -> None:
    """Find who is being made, innermost, and the outermost `__init__` that makes it."""
    made, begun = None, None
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__init__" and code.co_argcount:
            one = frame.f_locals.get(code.co_varnames[0])
            if made is not None and one is not made:
                break
            if one is not None and type(one).__module__.partition(".")[0] not in _NOT_THEIRS:
                made, begun = one, frame
        frame = frame.f_back
    if begun is None or not hasattr(made, "__weakref__"):
        return
    names, more, keywords, values = inspect.getargvalues(begun)
    count = begun.f_code.co_argcount  # the names of those by keyword only come after it
    if any(name not in values for name in (*names, more, keywords) if name):
        return  # deleted since
    key = id(made)
    gone = weakref.ref(made, lambda _: _calls.pop(key, None))
    args = *(values[name] for name in names[1:count]), *(values[more] if more else ())
    by_name = {name: values[name] for name in names[count:]} | (values[keywords] if keywords else {})
    _calls[key] = _Call(gone, args, by_name)


def find(cls: type) -> Kind | None:
    return Kind(reduce=reduce_parent) if any(type(call.made()) is cls for call in list(_calls.values())) else None


def reduce_parent(obj: Any, pickler: Pickler) -> Reduced:
    call = _calls.get(id(obj))
    if call is None or pickler.back or any(map(_has_learned, _held(obj))):
        return INSTANCE.reduce(obj, pickler)
    pickler.remarks.append(
        f"{pickler.name} has processes of its own ({type(obj).__qualname__}), which stay with the notebook: the"
        " training gets it made anew, by the call that made it, as it was then. No checkpoint can hold it."
    )
    return make_again, (type(obj), call.args, call.keywords)


def make_again(cls: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    return cls(*args, **keywords)


def _held(obj: Any) -> Iterator[Any]:
    for value in vars(obj).values():
        yield value
        yield from value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()


def _has_learned(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, (torch.Tensor, torch.nn.Module, torch.optim.Optimizer))
