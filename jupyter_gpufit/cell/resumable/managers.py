"""Context managers that an activation is in: how they are noted, and how it comes to be in them again.

Those of torch set the state of a thread, so they are entered again; of all others, files and the user's own, the state
is in the object, and entering them a second time would be wrong.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .program import Program

_OF_THE_PROCESS = ("_inference_mode_context",)  # handles that torch makes anew when it enters


@dataclass
class Recipe:
    """How a @contextmanager of torch was made: entering it makes it forget."""

    func: Any
    args: Any
    kwds: Any


def noted(manager: Any, program: Program) -> tuple[Any, Any]:
    """The manager to enter, and what to save for it."""
    if isinstance(manager, contextlib._GeneratorContextManager):
        if _from_torch(manager.func):
            return manager, Recipe(manager.func, manager.args, manager.kwds)
        program.library.meet(manager)
    return manager, manager


def enter_again(saved: Any) -> Any:
    if type(saved) is Recipe:
        return contextlib.contextmanager(saved.func)(*saved.args, **saved.kwds)
    return Again(saved) if _from_torch(type(saved)) else Entered(saved)


class Again:
    """Entered a second time, and then as it was: `prev`, the mode outside it, is not that of this process."""

    def __init__(self, manager: Any) -> None:
        self.manager = manager

    def __enter__(self) -> None:
        was = {name: value for name, value in vars(self.manager).items() if name not in _OF_THE_PROCESS}
        self.manager.__enter__()
        vars(self.manager).update(was)

    def __exit__(self, *error: Any) -> Any:
        return self.manager.__exit__(*error)


class Entered:
    """Was entered in another process; only left here."""

    def __init__(self, manager: Any) -> None:
        self.manager = manager

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> Any:
        return type(self.manager).__exit__(self.manager, *error)


def _from_torch(thing: Any) -> bool:
    return str(getattr(thing, "__module__", "")).partition(".")[0] == "torch"
