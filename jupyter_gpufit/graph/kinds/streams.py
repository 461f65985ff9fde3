"""The methods of standard streams, which bars keep: found again by what they are for, since each process has its own.

While a cell runs, IPython has a write() of its own there, which leads to all of the shell.
"""

from __future__ import annotations

import sys
from types import MethodType
from typing import Any

STREAMS = ("stdin", "stdout", "stderr")
OUTPUT = "jupyter_gpufit.worker.streams.CapturedStream"
_TEE = "InteractiveShell._tee.<locals>.write"


def method_of(obj: Any) -> tuple[str, str] | None:
    """Of which standard stream a function or method is which method, if it is one."""
    if isinstance(obj, MethodType):
        of = obj.__self__
        return next(((one, obj.__name__) for one in STREAMS if any(of is stream for stream in _streams(one))), None)
    if obj.__qualname__ == _TEE and obj.__module__ == "IPython.core.interactiveshell":  # also an earlier cell's
        kept = dict(zip(obj.__code__.co_freevars, obj.__closure__ or (), strict=True))
        return (kept["channel"].cell_contents, "write") if "channel" in kept else None
    for name in STREAMS:
        for stream in _streams(name):
            for attribute, value in getattr(stream, "__dict__", {}).items():
                if value is obj:
                    return name, attribute
    return None


def _streams(name: str) -> tuple[Any, ...]:
    now, first = getattr(sys, name), getattr(sys, f"__{name}__")
    ours = f"{type(now).__module__}.{type(now).__qualname__}" == OUTPUT or type(now).__name__ == "OutStream"
    return (now, first) if ours else (first,)  # what the user has put there is the user's


def find_method(stream: str, name: str) -> Any:
    return getattr(getattr(sys, stream), name)
