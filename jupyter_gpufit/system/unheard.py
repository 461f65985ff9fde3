"""Warnings that the user need not hear, without making Python forget those that the user has heard.

`warnings.catch_warnings` does: whatever has been shown once is shown again after it, in every module.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def unheard(*categories: type[Warning]) -> Iterator[None]:
    """Of these categories, or of all."""
    filters = _filters()
    added = [("ignore", None, category, None, 0) for category in categories or (Warning,)]
    filters[:0] = added
    try:
        yield
    finally:
        for one in added:
            if (place := next((at for at, there in enumerate(filters) if there is one), None)) is not None:
                del filters[place]


def _filters() -> list[Any]:
    """Those that hold here: from Python 3.14 on, a thread may have its own."""
    there: Any = warnings
    found: list[Any] = there._get_filters() if hasattr(there, "_get_filters") else there.filters
    return found
