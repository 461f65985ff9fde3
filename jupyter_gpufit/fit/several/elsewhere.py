"""Threads and children of a cell whose parameters and gradients are in parts: they are refused to look at any."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from ...errors import NotInParts
from ..rungs.operations import does


class CellsThread:
    """That in which all ranks do the same: the main one of this process, with torch's for its backward on a GPU."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    def is_here(self) -> bool:
        thread = threading.current_thread()
        is_cells = isinstance(thread, threading._DummyThread) or thread is threading.main_thread()
        return is_cells and os.getpid() == self._pid

    def refuse_others(self) -> None:
        """Of the other ranks nobody would come."""
        if not self.is_here():
            raise NotInParts


class OfOtherThreads(TorchDispatchMode):
    """What another thread does is no part of the order in which all ranks do the same: here nothing is gathered.

    A mode of its own, since torch takes a thread's modes into the threads of its backward: by those alone nobody could
    tell whose backward it is.
    """

    def __init__(self, given: Callable[[Any], Sequence[Any]]) -> None:
        """`given`: what of an operation's arguments is in parts."""
        super().__init__()  # type: ignore[no-untyped-call]
        self._given = given

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._given((args, kwargs)) and does(func)[0]:
            raise NotInParts
        return func(*args, **kwargs)
