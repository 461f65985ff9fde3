"""What belongs to the process and to no variable: random generators, settings, directory, signals, loggers, hooks.

`Surroundings` are wanted before the variables are opened, since a class or a file may need them. The rest is put in place
last, when the training stands where it stood: rebuilding it has drawn random numbers and changed settings.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..cell import modes, rng

# What the process was given, and what it is for: these are the new process's own.
_NOT_CARRIED = ("CUDA_VISIBLE_DEVICES", "PYTHONHASHSEED", "GPUFIT_", "TORCHINDUCTOR_CACHE_DIR")
_OURS = __package__.split(".")[0]


@dataclass(frozen=True)
class Surroundings:
    """Plain values."""

    directory: str | None
    environment: dict[str, str]
    recursion_limit: int

    @classmethod
    def now(cls) -> Surroundings:
        try:
            directory: str | None = os.getcwd()
        except OSError:
            directory = None  # deleted
        return cls(directory, _carried(os.environ), sys.getrecursionlimit())

    def put(self) -> None:
        for name in set(_carried(os.environ)) - set(self.environment):
            del os.environ[name]
        os.environ.update(self.environment)
        if self.directory is not None and os.path.isdir(self.directory):
            os.chdir(self.directory)
        sys.setrecursionlimit(self.recursion_limit)


def _carried(environment: Any) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(_NOT_CARRIED)}


Settings = dict[str, Any]


def read() -> Settings:
    """To be called in the main thread: some of these belong to a thread."""
    found: Settings = {"generators": rng.states(), "modes": modes.modes(), "signals": _signals(), "loggers": _loggers()}
    if "torch" in sys.modules:
        found["torch"] = {name: setting.read() for name, setting in _torch().items()}
        if on_gpu():
            found["gpu generators"] = sys.modules["torch"].cuda.get_rng_state_all()
    return found


def put(found: Settings) -> None:
    for number, handler in found["signals"].items():
        signal.signal(number, handler)
    _put_loggers(found["loggers"])
    modes.put(found["modes"])
    if "torch" in found:
        for name, setting in _torch().items():
            if name in found["torch"] and found["torch"][name] != setting.read():
                setting.write(found["torch"][name])
    if "gpu generators" in found and on_gpu():
        sys.modules["torch"].cuda.set_rng_state_all(found["gpu generators"])
    rng.restore(found["generators"])


def on_gpu() -> bool:
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda is not None and bool(cuda.is_available() and cuda.is_initialized())


def _signals() -> dict[int, Any]:
    """The handlers that are Python's functions, and not ours or Python's own."""
    found = {}
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        function = handler.__func__ if isinstance(handler, types.MethodType) else handler
        if isinstance(function, types.FunctionType) and not str(function.__module__).startswith((_OURS, "signal")):
            found[int(number)] = handler
    return found


# Loggers -------------------------------------------------------------------------------------------------------------


def _loggers() -> dict[str, tuple[int, bool, bool, list[Any], list[Any]]]:
    """Those that somebody has set up. Of their handlers those that write to files; modes.py has the root's streams."""
    found = {}
    for name, logger in [("", logging.root), *logging.root.manager.loggerDict.items()]:
        if not isinstance(logger, logging.Logger):
            continue
        handlers = [one for one in logger.handlers if _can_be_kept(one) and (name or isinstance(one, logging.FileHandler))]
        if handlers or (name and (logger.level or logger.disabled or not logger.propagate)):
            found[name] = (logger.level, logger.disabled, logger.propagate, handlers, list(logger.filters))
    return found


def _can_be_kept(handler: logging.Handler) -> bool:
    known = type(handler).__module__ in ("logging", "logging.handlers", "__main__")
    return known and isinstance(handler, logging.StreamHandler | logging.NullHandler)


def _put_loggers(found: dict[str, tuple[int, bool, bool, list[Any], list[Any]]]) -> None:
    for name, (level, disabled, propagate, handlers, filters) in found.items():
        logger = logging.getLogger(name) if name else logging.root
        if name:
            logger.handlers[:] = [one for one in logger.handlers if not _can_be_kept(one)]
            logger.filters[:], logger.disabled, logger.propagate = filters, disabled, propagate
        logger.setLevel(level)
        logger.handlers.extend(one for one in handlers if one not in logger.handlers)


# torch ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Setting:
    read: Callable[[], Any]
    write: Callable[[Any], None]


def _torch() -> dict[str, _Setting]:
    """What cell/modes.py does not carry between processes, and this process goes on with."""
    import torch
    from torch.backends import cuda, cudnn

    quietly: dict[str, _Setting] = {
        "threads": _Setting(torch.get_num_threads, torch.set_num_threads),
        "default device": _Setting(_default_device, torch.set_default_device),
        "flush denormal": _Setting(_flushes_denormal, lambda on: _ignore(torch.set_flush_denormal(on))),
        "anomaly": _Setting(
            lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
            lambda value: _ignore(torch.autograd.set_detect_anomaly(*value)),
        ),
        "autocast": _Setting(_autocast, _put_autocast),
        "attention": _Setting(
            lambda: tuple(getattr(cuda, f"{name}_sdp_enabled")() for name in _ATTENTION),
            lambda value: _put_attention(cuda, value),
        ),
        "cudnn": _Setting(
            lambda: (cudnn.enabled, _tf32(cudnn)),
            lambda value: _put_cudnn(cudnn, value),
        ),
        "reduced precision": _Setting(
            lambda: tuple(getattr(cuda.matmul, name) for name in _REDUCED),
            lambda value: [setattr(cuda.matmul, name, one) for name, one in zip(_REDUCED, value, strict=True)] and None,
        ),
        "sharing": _Setting(torch.multiprocessing.get_sharing_strategy, torch.multiprocessing.set_sharing_strategy),
        "next hook": _Setting(_next_hook, _put_next_hook),
        "hooks of all modules": _Setting(_global_hooks, _put_global_hooks),
    }
    return quietly


_ATTENTION = ("flash", "mem_efficient", "math", "cudnn")
_REDUCED = ("allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction")


def _ignore(result: object) -> None:
    """For calls whose result says only whether the machine can."""


def _default_device() -> str | None:
    """As the user named it: a slot calls `cuda` otherwise."""
    import torch

    from ..slot.side import CPU_AS_DEFAULT

    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    if context is None:
        return None
    return "cuda" if context.device == CPU_AS_DEFAULT else str(context.device)


def _flushes_denormal() -> bool:
    import torch

    return float(torch.tensor(1e-39, dtype=torch.float32, device="cpu") * 0.5) == 0.0


def _autocast() -> tuple[Any, ...]:
    import torch

    each = tuple((torch.is_autocast_enabled(one), torch.get_autocast_dtype(one)) for one in ("cpu", "cuda"))
    return each, torch.is_autocast_cache_enabled()


def _put_autocast(value: tuple[Any, ...]) -> None:
    import torch

    each, cache = value
    for device, (enabled, dtype) in zip(("cpu", "cuda"), each, strict=True):
        torch.set_autocast_enabled(device, enabled)
        torch.set_autocast_dtype(device, dtype)
    torch.set_autocast_cache_enabled(cache)


def _put_attention(cuda: Any, value: tuple[bool, ...]) -> None:
    for name, on in zip(_ATTENTION, value, strict=True):
        getattr(cuda, f"enable_{name}_sdp")(on)


def _tf32(cudnn: Any) -> bool | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch is between two ways to say it
        try:
            return bool(cudnn.allow_tf32)
        except RuntimeError:
            return None  # set by the newer way, which modes.py does not know either


def _put_cudnn(cudnn: Any, value: tuple[bool, bool | None]) -> None:
    cudnn.enabled = value[0]
    if value[1] is not None:
        cudnn.allow_tf32 = value[1]


def _next_hook() -> int:
    from torch.utils.hooks import RemovableHandle

    return RemovableHandle.next_id


def _put_next_hook(number: int) -> None:
    """Or the next hook would take the number, and so the place, of one that a module has."""
    from torch.utils.hooks import RemovableHandle

    RemovableHandle.next_id = max(number, RemovableHandle.next_id)


def _hook_tables() -> Iterator[tuple[str, dict[int, Any]]]:
    from torch.nn.modules import module
    from torch.optim import optimizer

    for home in (module, optimizer):
        for name, table in vars(home).items():
            if name.startswith("_global_") and isinstance(table, dict):
                yield f"{home.__name__}.{name}", table


def _global_hooks() -> dict[str, dict[int, Any]]:
    """register_module_forward_hook() and its like; this package counts optimizer steps by one of its own."""
    found = {
        name: {number: hook for number, hook in table.items() if not str(getattr(hook, "__module__", "")).startswith(_OURS)}
        for name, table in _hook_tables()
    }
    return {name: table for name, table in found.items() if table}


def _put_global_hooks(found: dict[str, dict[int, Any]]) -> None:
    for name, table in _hook_tables():
        table.update(found.get(name, {}))
