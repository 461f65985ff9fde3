"""Finding, for a function that is about to be called, the code with which it can be left and entered.

The user's function objects stay as they are; what is called instead is made for the one call.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

from ...errors import CannotArrive
from ...system.packages import is_installed
from ..libraries import own_resume
from ..libraries.gain import Gain, LeftShare
from ..libraries.library import package_of
from ..reading.scopes import Definition
from ..rewriting.source import Codes, Source
from ..values import PROGRAM, FrameRecord, Unit
from . import constructors, run_calls
from .activation import Activation
from .delegates import on_the_way
from .getters import Getter, function_of
from .managers import enter_again
from .modules import forward_of, may_train

_IN_CONTEXT: Any = object()


class Functions:
    def __init__(
        self,
        register: Callable[[CodeType, Unit], None],
        unknown: Callable[[FunctionType], LeftShare | None],
        at_home: Callable[[dict[str, Any]], None],
        gain: Gain,
    ) -> None:
        self._register, self._unknown, self._at_home, self._gain = register, unknown, at_home, gain
        self._known = Codes(self._other)  # the user's code -> where it is defined
        self._running: dict[str, CodeType] = {}
        self._entering: dict[str, CodeType] = {}

    def learn(self, source: Source) -> None:
        for code, one in source.functions.items():
            self._known.add(code, LeftShare(source, one))

    def _other(self, code: CodeType, function: FunctionType) -> Any:
        if _is_torch_context(code):
            return _IN_CONTEXT
        return self._unknown(function)

    def known(self, code: CodeType) -> LeftShare | None:
        """What is known of a function that was called."""
        found = self._known.asked(code)
        return found if isinstance(found, LeftShare) else None

    def variant(self, callee: Any, frame: Activation, k: int) -> Any:
        """None if it can only be called as it is."""
        if type(callee) is FunctionType:
            found = self._known.get(callee.__code__, callee)
            if found is None:
                return run_calls.variant(callee, frame)
            if found is not _IN_CONTEXT:
                return None if found.definition.is_forward else self._called(callee, found, frame)
            make, inner = _under_torch_context(callee)
            variant = self.variant(inner, frame, k)
            return variant and _in_context(make, variant, frame, k)
        elif type(callee) is MethodType:
            variant = self.variant(callee.__func__, frame, k)
            if (variant is None or self._hides(callee)) and (own := own_resume.calls(callee, frame)) is not None:
                return own
            return MethodType(variant, callee.__self__) if variant else run_calls.variant(callee, frame)
        elif type(callee) is functools.partial:
            variant = self.variant(callee.func, frame, k)
            return variant and functools.partial(variant, *callee.args, **callee.keywords)
        elif isinstance(callee, type):
            init = constructors.init_of(callee)
            variant = self.variant(init, frame, k) if init is not None and not _is_installed(init) else None
            return variant and constructors.made_by(callee, variant, frame, k)
        elif callable(callee) and type(type(callee).__call__) is FunctionType:
            variant = self.variant(type(callee).__call__, frame, k)
            return MethodType(variant, callee) if variant else self._of_module(callee, frame, k)
        return run_calls.variant(callee, frame)

    def getter(self, owner: Any, name: str, frame: Activation, k: int) -> Any:
        """The same for an attribute that may be a property: what to call with its owner."""
        function = function_of(owner, name)
        variant = function and self.variant(function, frame, k)
        if not variant:
            return None
        frame.callee = getter = Getter(owner, name)
        return lambda _: getter.got(variant)

    def _of_module(self, callee: Any, frame: Activation, k: int) -> Any:
        forward = forward_of(callee)
        if forward is None:
            return None

        def call(*args: Any, **named: Any) -> Any:
            found = self._known.get(forward.__code__, forward) if may_train(args, named) else None
            variant = self._called(forward, found, frame) if isinstance(found, LeftShare) else None
            if variant is None:
                frame.callee = None
                return callee(*args, **named)
            return variant(callee, *args, **named)

        return call

    def _called(self, callee: FunctionType, found: LeftShare, frame: Activation) -> FunctionType | None:
        if found.definition.is_init and _is_installed(callee):
            return None  # as `super().__init__()` has it
        if not found.of_library:
            if PROGRAM not in callee.__globals__:
                self._at_home(callee.__globals__)
            return _with_code(callee, self._running_code(found.source, found.definition))
        if found.is_short:
            return None
        if found.definition.generator:
            return _with_code(callee, found.source.changed[callee.__code__])
        if found.running is None:
            with self._gain.rewriting(package_of(callee.__globals__)):
                found.running = self._running_code(found.source, found.definition)
        frame.since = found, self._gain.clock()
        return _with_code(callee, found.running)

    def _hides(self, method: MethodType) -> bool:
        """Whether it is a function around another one that cannot be rewritten."""
        if not hasattr(method.__func__, "__wrapped__"):
            return False
        inner = inspect.unwrap(method.__func__)
        return isinstance(inner, FunctionType) and self._known.get(inner.__code__, inner) is None

    def enter(self, callee: Any, frame: Activation, k: int) -> Any:
        """Call it from where it stood, which is in the next of the records."""
        if type(callee) in (own_resume.OwnResume, run_calls.RunCall):
            return callee.go_on(frame)
        if type(callee) is Getter:
            return callee.go_on(self.enter, frame, k)
        if callee is next:
            generator, *default = frame.its[k]
            assert frame.rest, f"{generator} was not left midway"
            try:
                return next(on_the_way(generator, frame.rest), *default)
            finally:
                frame.its.pop(k, None)
        if type(callee) is functools.partial:
            return self.enter(callee.func, frame, k)
        if type(callee) is MethodType:
            return self.enter(callee.__func__, frame, k)
        if isinstance(callee, type):
            return constructors.go_on(callee, frame, k, self.enter)
        if type(callee) is not FunctionType:
            return self.enter(forward_of(callee) or type(callee).__call__, frame, k)
        found = self._known.get(callee.__code__, callee)
        if found is _IN_CONTEXT:
            with enter_again(frame.cms[k]):
                return self.enter(_under_torch_context(callee)[1], frame, k)
        if found is None:
            why = f"{callee.__qualname__}() is not what it was when the checkpoint was taken."
            raise CannotArrive("", f"{why} Put back the version that was there, or run the cell again.")
        return self._entered(callee, found.source, found.definition, frame.rest)

    def _entered(self, callee: FunctionType, source: Source, one: Definition, records: list[FrameRecord] | None) -> Any:
        assert records, f"{callee} was not left midway"
        if records[0].uid != source.uid(one):
            why = f"{callee.__qualname__}() of {callee.__module__} is not what it was when the checkpoint was taken."
            raise CannotArrive("", f"{why} Put back the version that was there, or run the cell again.")
        if PROGRAM not in callee.__globals__:
            self._at_home(callee.__globals__)
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
    closure = tuple(cells.get(name) or CellType() for name in code.co_freevars)
    return FunctionType(code, home, code.co_name, None, closure)


def _is_installed(function: FunctionType) -> bool:
    """What packages construct does not train, and to rewrite all of it would cost what their trainers need."""
    return is_installed(function.__code__.co_filename)


def _with_code(function: FunctionType, code: CodeType) -> FunctionType:
    made = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _is_torch_context(code: CodeType) -> bool:
    """Whether it is of a function decorated with @torch.no_grad() or its like."""
    return code.co_name == "decorate_context" and set(code.co_freevars) == {"ctx_factory", "func"}


def _under_torch_context(function: FunctionType) -> tuple[Any, Any]:
    """What makes the context, and the function that is decorated."""
    pairs = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    found = {name: cell.cell_contents for name, cell in pairs}
    return found["ctx_factory"], found["func"]


def _in_context(make: Any, variant: Any, frame: Activation, k: int) -> Callable[..., Any]:
    def decorate_context(*args: Any, **kwargs: Any) -> Any:
        frame.cms[k] = manager = make()
        try:
            with manager:
                return variant(*args, **kwargs)
        finally:
            frame.cms.pop(k, None)

    return decorate_context
