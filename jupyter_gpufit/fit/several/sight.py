"""Sees each function of torch that is called: inside of a forward that has rows, and outside, where rows may have got.

A forward leaves more than it returns: attributes of modules, caches, what hooks keep. Whoever uses rows outside of a
forward gets them whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

import torch
from torch._ops import OpOverload
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils.weak import WeakIdKeyDictionary

from .functions import is_setting, tensors_in, with_tensors
from .group import Group
from .parts import rows_of, whole_of
from .pieces import in_pieces


class Hears(Protocol):
    """What is done with the calls inside of a forward."""

    def call(self, func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any: ...


class Sight(TorchFunctionMode):
    """While it is entered, and not while it calls a function itself: what torch calls inside of one is not seen."""

    def __init__(self, group: Group) -> None:
        super().__init__()
        self.group = group
        self.forward: Hears | None = None
        self.kept = WeakIdKeyDictionary()  # of what models keep from call to call: this rank's rows, by what is whole

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        func = in_pieces(func, args, kwargs)
        if self.forward is not None:
            # An OpOverload was passed on by a dispatch mode, of something that is no call, as from_numpy(). A setting,
            # as of torch.no_grad(), is taken back at the end of its block, whatever has happened there.
            if isinstance(func, OpOverload) or is_setting(func, args):
                return func(*args, **kwargs)
            return self.forward.call(func, args, kwargs)
        # In a backward it is popped, but where a trial run keeps modes: what computes fakes there looks at rows, too.
        in_backward = torch._C._current_graph_task_id() != -1
        if not in_backward and any(rows_of(t) is not None for t in tensors_in((args, kwargs))):
            args, kwargs = with_whole(self.group, args), with_whole(self.group, kwargs)
        return func(*args, **kwargs)

    def entered(self) -> AbstractContextManager[Any]:
        """In a backward, which is itself a call that is seen, it has to be entered again."""
        return nullcontext() if self in _get_current_function_mode_stack() else self

    @contextmanager
    def inside(self, forward: Hears | None) -> Iterator[None]:
        """Have these calls heard."""
        before, self.forward = self.forward, forward
        try:
            yield
        finally:
            self.forward = before


def with_whole(group: Group, given: Any) -> Any:
    return with_tensors(lambda t: whole_of(group, t), given)


class AsItIs:
    """Inside of a function that is one call."""

    def call(self, func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        return func(*args, **kwargs)
