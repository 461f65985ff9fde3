"""What belongs to the process and to no variable: generators, settings, directory, limits, signals, loggers, hooks.

`Surroundings` are wanted before the variables are opened, since a class or a file may need them. The rest is put in
place last, when the training stands where it stood: rebuilding it has drawn random numbers and changed settings.
"""

from __future__ import annotations

import logging
import os
import resource
import signal
import sys
import types
from dataclasses import dataclass, field
from typing import Any

from ..graph.kinds.loggers import can_be_kept, handlers_of
from . import generators, modes, start, torch_settings
from .past_modes import past_modes

# What the process was given, and what it is for: these are the new process's own.
_NOT_CARRIED = ("CUDA_VISIBLE_DEVICES", "PYTHONHASHSEED", "GPUFIT_", "TORCHINDUCTOR_CACHE_DIR", "WANDB_SERVICE")
# Limits that a training raises for itself. The others are set for it, by a shell or an administrator.
_LIMITS = ("RLIMIT_NOFILE", "RLIMIT_STACK", "RLIMIT_CORE")
_OURS = __package__.split(".")[0]


@dataclass(frozen=True)
class Surroundings:
    """Plain values."""

    directory: str | None
    environment: dict[str, str]
    recursion_limit: int
    umask: int | None = None  # None: not known
    limits: dict[str, int] = field(default_factory=dict)  # the soft ones
    argv: list[str] | None = None  # which a module of the user's may parse where it is imported

    @classmethod
    def now(cls) -> Surroundings:
        try:
            directory: str | None = os.getcwd()
        except OSError:
            directory = None  # deleted
        limits = {name: resource.getrlimit(getattr(resource, name))[0] for name in _LIMITS}
        return cls(directory, _carried(os.environ), sys.getrecursionlimit(), start.umask(), limits, list(sys.argv))

    def put(self) -> None:
        for name in set(_carried(os.environ)) - set(self.environment):
            del os.environ[name]
        os.environ.update(self.environment)
        if self.directory is not None and os.path.isdir(self.directory):
            os.chdir(self.directory)
        sys.setrecursionlimit(self.recursion_limit)
        if self.argv is not None:
            sys.argv[:] = self.argv
        if self.umask is not None:
            os.umask(self.umask)
        for name, soft in self.limits.items():
            _limit(getattr(resource, name), soft)


def _limit(number: int, soft: int) -> None:
    """As near to it as this process may go."""
    now, hard = resource.getrlimit(number)
    if hard != resource.RLIM_INFINITY and not 0 <= soft <= hard:
        soft = hard
    if soft != now:
        resource.setrlimit(number, (soft, hard))


def _carried(environment: Any) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(_NOT_CARRIED)}


Settings = dict[str, Any]


def read() -> Settings:
    """To be called in the main thread: some of these belong to a thread."""
    found: Settings = {
        "generators": generators.states(),
        "modes": modes.modes(),
        "signals": signals(),
        "loggers": _loggers(),
    }
    if "torch" in sys.modules:
        found["torch"] = torch_settings.read()
        if on_gpu():
            found["gpu generators"] = sys.modules["torch"].cuda.get_rng_state_all()
    return found


def put(found: Settings) -> None:
    with past_modes():
        _put(found)


def _put(found: Settings) -> None:
    put_signals(found["signals"])
    _put_loggers(found["loggers"])
    modes.put(found["modes"])
    if "torch" in found:
        torch_settings.put(found["torch"])
    if "gpu generators" in found and on_gpu():
        sys.modules["torch"].cuda.set_rng_state_all(found["gpu generators"])
    generators.restore(found["generators"])


def on_gpu() -> bool:
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda is not None and bool(cuda.is_available() and cuda.is_initialized())


def signals() -> dict[int, Any]:
    """The handlers that are Python's functions, and not ours or Python's own."""
    found = {}
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        function = handler.__func__ if isinstance(handler, types.MethodType) else handler
        if isinstance(function, types.FunctionType) and not str(function.__module__).startswith((_OURS, "signal")):
            found[int(number)] = handler
    return found


def put_signals(found: dict[int, Any]) -> None:
    for number, handler in found.items():
        if not str(getattr(signal.getsignal(number), "__module__", "")).startswith(_OURS):
            signal.signal(number, handler)


# Loggers -------------------------------------------------------------------------------------------------------------


def _loggers() -> dict[str, tuple[int, bool, bool, list[Any], list[Any]]]:
    """Those that somebody has set up. Of their handlers those that write to files; modes.py has the root's streams."""
    found = {}
    for name, logger in [("", logging.root), *logging.root.manager.loggerDict.items()]:
        if not isinstance(logger, logging.Logger):
            continue
        handlers = [one for one in handlers_of(logger) if can_be_kept(one)]
        if handlers or (name and (logger.level or logger.disabled or not logger.propagate)):
            found[name] = (logger.level, logger.disabled, logger.propagate, handlers, list(logger.filters))
    return found


def _put_loggers(found: dict[str, tuple[int, bool, bool, list[Any], list[Any]]]) -> None:
    for name, (level, disabled, propagate, handlers, filters) in found.items():
        logger = logging.getLogger(name) if name else logging.root
        if name:
            logger.handlers[:] = [one for one in logger.handlers if not can_be_kept(one)]
            logger.filters[:], logger.disabled, logger.propagate = filters, disabled, propagate
        logger.setLevel(level)
        logger.handlers.extend(one for one in handlers if one not in logger.handlers)
