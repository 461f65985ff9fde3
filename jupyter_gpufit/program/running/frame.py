"""What rewritten code asks while it runs: one Frame for each activation of a cell, function or generator.

The names are short because they stand in the user's code, the methods because they run in every iteration.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from inspect import isgeneratorfunction
from itertools import starmap
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    FunctionType,
    GeneratorType,
    MethodDescriptorType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import Any

from .activation import Activation
from .counted import of, over
from .delegates import Delegate, delegate_of, on_the_way
from .iterators import EXCHANGED, FORGETFUL, exchanged, items_of_ranges
from .managers import enter_again, noted

_OF_C = frozenset(
    {
        BuiltinFunctionType,
        ClassMethodDescriptorType,
        MethodDescriptorType,
        MethodWrapperType,
        WrapperDescriptorType,
    }
)
_NEVER: Any = (None,)  # what no safe point answers


class _Probe:
    def made(self, value: Any) -> int:
        return sys.getrefcount(value)


def _one() -> Iterator[None]:
    yield


_ALONE = _Probe().made(builtins.iter(_one()))  # references to a value that nobody holds but who passes it on


class Frame(Activation):
    """An activation as its rewritten code asks it."""

    __slots__ = ()

    iter = builtins.iter  # called from the user's code, so that an error of their __iter__ shows no frame of ours

    # Loops -----------------------------------------------------------------------------------------------------------

    def it(self, k: int, iterator: Iterator[Any]) -> None:
        source, self.v = self.v, None
        self.its[k] = iterator = of(source, iterator)
        if type(iterator) in FORGETFUL:
            self.wholes[k] = items_of_ranges(iterator)

    def over(self, value: Any) -> Any:
        """What a loop is about to go over: what it consists of may make generators where no code of ours is."""
        self.program.library.prepare(value)
        self.v = None if hasattr(type(value), "__next__") else value  # who holds a generator keeps it from `made`
        return value

    def made(self, value: Any) -> Any:
        """What a call has just returned: a generator that nobody else holds is made one of ours."""
        if type(value) is GeneratorType and sys.getrefcount(value) == _ALONE:
            return self.program.library.remade(value)
        if type(value) in EXCHANGED and sys.getrefcount(value) == _ALONE:
            return exchanged(value, self.program.library.remade)
        return value

    def each(self, function: Any, value: Any) -> Any:
        """An argument of zip() or enumerate(): of a library's object the generator that this would have made.

        To make a generator runs none of its code, so it does not matter that it is made before the other arguments.
        """
        self.program.library.prepare(value)
        method = getattr(type(value), "__iter__", None)
        if type(method) is not FunctionType or not isgeneratorfunction(method):
            return value
        if not (function is zip or function is enumerate) or self.program.unit_of(method.__code__) is not None:
            return value
        return self.program.library.remade(builtins.iter(value))

    def by(self, callee: Any) -> Any:
        """What a loop calls for its iterator."""
        return over(callee, callee)

    def dn(self, k: int) -> None:
        self.its.pop(k, None)
        if not self.its and (over := self.program.at_loops_end) is not None:
            over(sys._getframe(1))

    def loop(self, k: int) -> Iterator[Any]:
        """The iterator, with a safe point before each item; nothing of it runs in Python but the safe point.

        So an exception of the user's iterator passes no frame of ours. The iterator itself would be asked for its
        iterator once more by `for`, and some then begin again.
        """
        following = self.its[k].__next__
        program = self.program

        def ask() -> tuple[()]:
            if program.pending:
                self.stop(k)
            return ()

        return starmap(following, iter(ask, _NEVER))

    def nx(self, k: int) -> bool:
        """The same for a loop that can be entered."""
        if self.r:
            if self.rpc != k:
                return k in self.p  # into the body, or past it to the `else`
            self.resumed()
        elif self.program.pending:
            self.stop(k)
        try:
            self.v = next(self.its[k])
        except StopIteration:
            return False
        return True

    def take(self) -> Any:
        value, self.v = self.v, None
        return value

    def wh(self, k: int) -> bool:
        """The safe point of a `while`; whether to go into its body without a test."""
        if self.r:
            if k in self.p and k not in self.its:  # in a checkpoint of before its turns were counted
                found, paths = self.its | {k: [0]}, self.unit.paths
                self.its = dict(sorted(found.items(), key=lambda one: len(paths[one[0]])))  # outermost first
            if self.rpc != k:
                return k in self.p
            self.resumed()
        elif self.program.pending:
            self.stop(k)
        return False

    def stop(self, k: int) -> None:
        if self.unit.kind != "generator":
            self.pc = k
            self.program.stop()
            return
        before, self.pc = self.pc, k
        if self.program.can_be_left():  # whoever asked it for a value waits for it
            self.program.stop()
        self.pc = before

    # Calls -----------------------------------------------------------------------------------------------------------

    def fn(self, k: int, callee: Any) -> Any:
        """What to call instead of `callee`, so that it can be left midway; or itself."""
        self.pc = k
        if self.since is not None:
            self._ended()
        kind = type(callee)
        if (kind in _OF_C and callee is not builtins.exec) or (kind is type and type(callee.__init__) in _OF_C):
            self.callee = callee if callee is next else None
            return self.following if callee is next else self.begun if callee is builtins.iter else callee
        variant = self.program.functions.variant(callee, self, k)
        self.callee = None if variant is None else callee
        return callee if variant is None else variant

    def got(self, k: int, owner: Any, name: str) -> Any:
        """What to call with `owner` for its attribute, so that a property can be left midway; or None."""
        self.pc = k
        if self.since is not None:
            self._ended()
        self.callee = None
        return self.program.functions.getter(owner, name, self, k)

    def fn_over(self, k: int, callee: Any) -> Any:
        """The same for a call that gives what a loop goes over."""
        return over(callee, self.fn(k, callee))

    def begun(self, *args: Any) -> Any:
        """iter(), whose generator shall be one that can be saved."""
        if args:
            self.program.library.prepare(args[0])
        return builtins.iter(*args)

    def following(self, *args: Any) -> Any:
        """next(), so that it is known whom it asks: a generator can be left while it computes the item."""
        k = self.pc
        assert k is not None
        self.its[k] = args
        try:
            return next(*args)
        finally:
            self.its.pop(k, None)

    def _ended(self) -> None:
        """The last call has, at the latest by now."""
        assert self.since is not None
        gain = self.program.library.gain
        (called, began), self.since = self.since, None
        gain.took(called, gain.clock() - began)

    def rcall(self, k: int) -> Any:
        """Enter again whom it was calling."""
        callee, self.pc = self.callee, k
        try:
            return self.program.functions.enter(callee, self, k)
        finally:
            self.r, self.rest = False, None  # also if it leaves with an exception: what follows is to be done

    # Generators ------------------------------------------------------------------------------------------------------

    def y(self, k: int) -> bool:
        """Whether to yield; if not, to wait where it had yielded."""
        if self.r:
            self.r = False
            return False
        self.pc = k
        return True

    def un(self, value: Any) -> Any:
        """A yield at a place of no number."""
        self.pc = None
        return value

    def yf(self, k: int) -> Any:
        self.pc = k
        source = self.its[k]
        if self.r:
            self.r = False
            if self.rest:
                return on_the_way(source, self.rest)
            return Delegate(source, parked=False)
        return source if isinstance(source, GeneratorType) else delegate_of(source)

    # Context managers ------------------------------------------------------------------------------------------------

    def cm(self, k: int, manager: Any) -> Any:
        if self.r:
            return enter_again(self.cms[k])
        manager, self.cms[k] = noted(manager, self.program.library)
        return manager

    def dc(self, k: int) -> None:
        self.cms.pop(k, None)

    # Errors that are handled -----------------------------------------------------------------------------------------

    def ex(self, k: int) -> None:
        """In a block that handles an error, which is saved with it."""
        self.cms[k] = sys.exc_info()[1]

    def caught(self, k: int) -> BaseException:
        error: BaseException = self.cms[k]
        return error

    def any_error(self) -> type[BaseException]:
        """BaseException, whatever that name means in the user's code."""
        return BaseException
