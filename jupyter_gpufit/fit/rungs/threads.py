"""Modes of torch in the threads that a cell starts: torch enters them in one thread alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any


@contextmanager
def in_threads(*modes: AbstractContextManager[Any]) -> Iterator[None]:
    """Enter these in each thread that starts meanwhile, too."""
    bootstrap: Any = vars(threading.Thread)["_bootstrap_inner"]

    def begins(thread: threading.Thread) -> None:
        with ExitStack() as stack:
            for mode in modes:
                stack.enter_context(mode)
            bootstrap(thread)

    threading.Thread._bootstrap_inner = begins  # type: ignore[attr-defined]
    try:
        yield
    finally:
        threading.Thread._bootstrap_inner = bootstrap  # type: ignore[attr-defined]
