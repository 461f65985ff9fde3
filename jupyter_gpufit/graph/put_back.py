"""Attributes that cells put back into library modules that have lost them: `np.float = float`, for a package of old.

They are set before anything is opened, for that package is imported then. What the variables hold comes later, and
stands there from then on; so only names, numbers and tables of them go ahead, and only where the module has none.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from types import BuiltinFunctionType, FunctionType
from typing import Any

_LARGEST = 65536  # bytes: a name that was lost is a type, a number or a table of these

Lost = tuple[str, str, Any]  # a module's name, the attribute, its value


class _Plain(pickle.Pickler):
    """Types and functions by their names, numbers, texts and tables of these; of nothing else a state is asked for."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, (type, FunctionType, BuiltinFunctionType)):
            return NotImplemented
        raise pickle.PicklingError(type(obj).__name__)


def written(found: Iterable[Lost]) -> list[tuple[str, str, bytes]]:
    ahead = []
    for module, name, value in found:
        with suppress(Exception):  # it goes with the variables, or is refused there
            _Plain(raw := io.BytesIO(), 5).dump(value)
            if raw.tell() <= _LARGEST:
                ahead.append((module, name, raw.getvalue()))
    return ahead


def put_back(ahead: Iterable[tuple[str, str, bytes]]) -> None:
    for name, attribute, raw in ahead:
        with suppress(Exception):  # what misses it then says so
            if not hasattr(module := import_module(name), attribute):
                setattr(module, attribute, pickle.loads(raw))
