"""Context managers that an activation is in: how they are noted, and how it comes to be in them again.

Those of torch set the state of a thread, so they are entered again; of all others, files and the user's own, the state
is in the object, and entering them a second time would be wrong. Of a mode of the user's only torch's part is entered.
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from typing import Any

from ..libraries.library import Library

_OF_THE_PROCESS = ("_inference_mode_context",)  # handles that torch makes anew when it enters
# Generators of torch that set what a checkpoint's settings hold. They go on where they stood, for what they put back at
# their end is what they found before the loop, and not what the new process has there.
_IN_THE_SETTINGS = {
    ("torch.random", "fork_rng"),
    ("torch.backends.cudnn", "flags"),
    ("torch.backends.mkldnn", "flags"),
    ("torch.nn.attention", "sdpa_kernel"),
}
_ENTER_NOTHING = ("_DecoratorContextManager",)  # leave that to the classes made of them
# Lists in which a TorchDispatchMode notes, each time it is entered, what was on outside it.
_NOTED_OUTSIDE = (
    "old_dispatch_mode_flags",
    "old_non_infra_dispatch_mode_flags",
    "old_without_ignore_compile_internals_dispatch_mode_flags",
)


@dataclass
class Recipe:
    """How a @contextmanager of torch was made: entering it makes it forget."""

    func: Any
    args: Any
    kwds: Any


@dataclass
class NumpyErrors:
    """A numpy.errstate since numpy 2: what holds outside it is in a token, which belongs to its process."""

    outside: dict[str, Any]
    inside: dict[str, Any]

    def made(self) -> Any:
        numpy = sys.modules["numpy"]
        numpy.seterr(**{name: how for name, how in self.outside.items() if name != "call"})
        numpy.seterrcall(self.outside["call"])
        return numpy.errstate(**self.inside)


def noted(manager: Any, library: Library) -> tuple[Any, Any]:
    """The manager to enter, and what to save for it."""
    if isinstance(manager, contextlib._GeneratorContextManager):
        func = manager.func
        if not _from_torch(func) or (func.__module__, func.__qualname__) in _IN_THE_SETTINGS:
            library.meet(manager)
        if _from_torch(func) and not library.is_ours(manager.gen):
            return manager, Recipe(func, manager.args, manager.kwds)
    elif (type(manager).__module__, type(manager).__name__) == ("numpy", "errstate") and hasattr(manager, "_token"):
        return manager, _numpy_errors(manager)
    return manager, manager


def _numpy_errors(manager: Any) -> NumpyErrors:
    numpy = sys.modules["numpy"]
    names = ("call", "all", *numpy.geterr())
    inside = {name: getattr(manager, f"_{name}") for name in names}
    if type(inside["call"]).__module__.startswith("numpy"):
        del inside["call"]  # the mark for one that was not given
    return NumpyErrors({**numpy.geterr(), "call": numpy.geterrcall()}, inside)


def enter_again(saved: Any) -> Any:
    if type(saved) is Recipe:
        return contextlib.contextmanager(saved.func)(*saved.args, **saved.kwds)
    if type(saved) is NumpyErrors:
        return saved.made()
    return Entered(saved) if _entering(saved) is None else Again(saved)


class Again:
    """Entered a second time, and then as it was: `prev`, the mode outside it, is not that of this process."""

    def __init__(self, manager: Any) -> None:
        self.manager = manager

    def __enter__(self) -> None:
        own = getattr(self.manager, "__dict__", {})  # torch.device has none
        was = {name: value for name, value in own.items() if name not in _OF_THE_PROCESS}
        for name in _NOTED_OUTSIDE:
            if own.get(name):
                own[name].pop()
        _entering(self.manager)(self.manager)
        own.update(was)

    def __exit__(self, *error: Any) -> Any:
        return type(self.manager).__exit__(self.manager, *error)


class Entered:
    """Was entered in another process; only left here."""

    def __init__(self, manager: Any) -> None:
        self.manager = manager

    def __enter__(self) -> None:
        if type(self.manager) is contextlib.ExitStack:  # it holds others, in the order of their entering
            for _, leave in self.manager._exit_callbacks:  # type: ignore[attr-defined]
                if _entering(held := getattr(leave, "__self__", None)) is not None:
                    Again(held).__enter__()

    def __exit__(self, *error: Any) -> Any:
        return type(self.manager).__exit__(self.manager, *error)


def _entering(manager: Any) -> Any:
    """What torch does to enter it, without what a class of the user's adds to that; None if it is not torch's."""
    for cls in type(manager).__mro__:
        if _from_torch(cls) and "__enter__" in vars(cls) and cls.__name__ not in _ENTER_NOTHING:
            return vars(cls)["__enter__"]
    return None


def _from_torch(thing: Any) -> bool:
    return str(getattr(thing, "__module__", "")).partition(".")[0] == "torch"
