"""Finding, for a function that is about to be called, the code with which it can be left and entered.

The user's function objects stay as they are; what is called instead is made for the one call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CellType, CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from .managers import enter_again
from .scopes import Definition
from .source import Codes, Source
from .values import Unit

if TYPE_CHECKING:
    from .frame import Frame


class Functions:
    def __init__(self, register: Callable[[CodeType, Unit], None]) -> None:
        self._register = register
        self._known = Codes.none()  # the user's code -> where it is defined
        self._running: dict[str, CodeType] = {}
        self._entering: dict[str, CodeType] = {}

    def learn(self, source: Source) -> None:
        for code, one in source.functions.items():
            self._known.add(code, (source, one))

    def variant(self, callee: Any, frame: Frame, k: int) -> Any:
        """None if it can only be called as it is."""
        if type(callee) is FunctionType:
            if (found := self._known.get(callee.__code__)) is not None:
                return _with_code(callee, self._running_code(*found))
            if (inner := _under_torch_context(callee)) is not None:
                variant = self.variant(inner[1], frame, k)
                return variant and _in_context(inner[0], variant, frame, k)
        elif type(callee) is MethodType:
            variant = self.variant(callee.__func__, frame, k)
            return variant and MethodType(variant, callee.__self__)
        elif type(callee) is functools.partial:
            variant = self.variant(callee.func, frame, k)
            return variant and functools.partial(variant, *callee.args, **callee.keywords)
        return None

    def enter(self, callee: Any, frame: Frame, k: int) -> Any:
        """Call it from where it stood, which is in the next of the records."""
        if type(callee) is functools.partial:
            return self.enter(callee.func, frame, k)
        if type(callee) is MethodType:
            return self.enter(callee.__func__, frame, k)
        found = self._known.get(callee.__code__)
        if found is None:
            inner = _under_torch_context(callee)
            assert inner is not None, f"{callee} is not known"
            with enter_again(frame.cms[k]):
                return self.enter(inner[1], frame, k)
        return self._entered(callee, *found, frame.rest)

    def _entered(self, callee: FunctionType, source: Source, one: Definition, records: Any) -> Any:
        assert records and records[0].uid == source.uid(one), f"{callee} is not what was saved"
        around = dict(zip(callee.__code__.co_freevars, callee.__closure__ or (), strict=True))
        made = entered(self.entering_code(source, one), callee.__globals__, around | records[0].cells)
        made.__name__, made.__qualname__ = callee.__name__, callee.__qualname__
        return made((records.pop(0), records))

    def _running_code(self, source: Source, one: Definition) -> CodeType:
        uid = source.uid(one)
        if uid not in self._running:
            code, unit = source.running(one)
            self._register(code, unit)
            self._running[uid] = code
        return self._running[uid]

    def entering_code(self, source: Source, one: Definition) -> CodeType:
        uid = source.uid(one)
        if uid not in self._entering:
            code, unit = source.entering(one)
            self._register(code, unit)
            self._entering[uid] = code
        return self._entering[uid]


def entered(code: CodeType, home: dict[str, Any], cells: dict[str, CellType]) -> FunctionType:
    return FunctionType(code, home, code.co_name, None, tuple(cells.get(name) or CellType() for name in code.co_freevars))


def _with_code(function: FunctionType, code: CodeType) -> FunctionType:
    made = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _under_torch_context(function: Any) -> tuple[Any, Any] | None:
    """What makes the context, and the function, of one decorated with @torch.no_grad() or its like."""
    code = function.__code__
    if code.co_name != "decorate_context" or set(code.co_freevars) != {"ctx_factory", "func"}:
        return None
    found = {name: cell.cell_contents for name, cell in zip(code.co_freevars, function.__closure__, strict=True)}
    return found["ctx_factory"], found["func"]


def _in_context(make: Any, variant: Any, frame: Frame, k: int) -> Callable[..., Any]:
    def decorate_context(*args: Any, **kwargs: Any) -> Any:
        frame.cms[k] = manager = make()
        try:
            with manager:
                return variant(*args, **kwargs)
        finally:
            frame.cms.pop(k, None)

    return decorate_context

