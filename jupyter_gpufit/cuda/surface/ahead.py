"""Modules that are imported before anybody knows on which device their cell will be.

Asked whether there is one, torch.cuda says what it will say there. What else a module asks while it is imported has no
answer yet; then it was imported too early. A function that a module has taken by its name asks torch.cuda again each
time; other things that it has taken are given to it anew where `cuda` comes to mean something else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import wraps
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import torch

from .asker import asked_by_torch
from .replace import RAW_STREAM, modules_of_cuda, offered, raw_stream, replaced

_KNOWN: dict[str, Any] = {
    "is_available": True,
    "device_count": 1,
    "current_device": 0,
    "current_accelerator": torch.device("cuda"),
}
_imported: list[str] = []  # modules, in this process

Replacement = tuple[object, str, object]  # where, which name, and by what


class TooEarly(RuntimeError):
    """What a module asks can only be told on the device."""


@contextmanager
def asked_ahead(capability: tuple[int, int] | None = None) -> Iterator[list[str]]:
    """While modules are imported ahead; gives the names of what they asked too early.

    `capability`: of every device here, where that is the same.
    """
    unanswered: list[str] = []
    known = _KNOWN if capability is None else {**_KNOWN, "get_device_capability": capability}
    before = {*sys.modules}
    with ExitStack() as stack:
        for module in modules_of_cuda():
            for name, real in list(offered(module)):
                if not isinstance(real, type):
                    stack.enter_context(replaced(module, name, _asking(module, name, real, known, unanswered)))
        if not hasattr(torch._C, RAW_STREAM):  # a build for CPUs, on which only a slot can be the device
            stack.enter_context(replaced(torch._C, RAW_STREAM, raw_stream))
        yield unanswered
    _imported.extend(name for name in sys.modules if name not in before)


def _asking(
    module: ModuleType, name: str, real: Callable[..., Any], known: Mapping[str, Any], unanswered: list[str]
) -> Callable[..., Any]:
    @wraps(real)
    def ask(*args: Any, **kwargs: Any) -> Any:
        now = getattr(module, name)
        if now is not ask:  # by now it is known what `cuda` means
            return now(*args, **kwargs)
        if asked_by_torch():
            return real(*args, **kwargs)
        if name not in known:
            unanswered.append(name)
            raise TooEarly(f"torch.cuda.{name} cannot be told before there is a device")
        return known[name]

    return ask


def taken_by_name(replacements: Iterable[Replacement]) -> Iterator[Replacement]:
    """The same for what modules that were imported ahead have of these in their own names."""
    ours = {id(vars(owner).get(name)): value for owner, name, value in replacements if isinstance(owner, ModuleType)}
    for module in [sys.modules[name] for name in _imported if name in sys.modules] if ours else ():
        for name, held in list(vars(module).items()):
            if isinstance(held, (type, FunctionType, BuiltinFunctionType)) and id(held) in ours:
                yield module, name, ours[id(held)]
