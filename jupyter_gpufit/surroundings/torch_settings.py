"""The settings of torch that a training goes on with, but for those of modes.py; some go with a cell and come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..system.unheard import unheard

_OURS = __package__.split(".")[0]


@dataclass(frozen=True)
class _Setting:
    read: Callable[[], Any]
    write: Callable[[Any], None]
    travels: bool = False  # with a cell; the others are each process's own, or hold what plain pickle cannot write


def read() -> dict[str, Any]:
    return {name: setting.read() for name, setting in _settings().items()}


def read_travelling() -> dict[str, Any]:
    return {name: setting.read() for name, setting in _settings().items() if setting.travels}


def put(found: dict[str, Any]) -> None:
    for name, setting in _settings().items():
        if name in found and found[name] != setting.read():
            setting.write(found[name])


def _settings() -> dict[str, _Setting]:
    import torch
    from torch.backends import cuda, cudnn

    from ..cuda import types

    return {
        "threads": _Setting(torch.get_num_threads, torch.set_num_threads),
        "default type on cuda": _Setting(types.is_default, _put_default_type, True),
        "default device": _Setting(_default_device, torch.set_default_device),
        "flush denormal": _Setting(_flushes_denormal, lambda on: _ignore(torch.set_flush_denormal(on)), True),
        "anomaly": _Setting(
            lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
            lambda value: _ignore(torch.autograd.set_detect_anomaly(*value)),
            True,
        ),
        "autocast": _Setting(_autocast, _put_autocast),
        "attention": _Setting(
            lambda: tuple(getattr(cuda, f"{name}_sdp_enabled")() for name in _ATTENTION),
            lambda value: _put_attention(cuda, value),
            True,
        ),
        "cudnn": _Setting(
            lambda: (cudnn.enabled, _tf32(cudnn)),
            lambda value: _put_cudnn(cudnn, value),
            True,
        ),
        "reduced precision": _Setting(
            lambda: tuple(getattr(cuda.matmul, name) for name in _REDUCED),
            lambda value: _put_reduced(cuda.matmul, value),
            True,
        ),
        "sharing": _Setting(torch.multiprocessing.get_sharing_strategy, torch.multiprocessing.set_sharing_strategy),
        "next hook": _Setting(_next_hook, _put_next_hook, True),
        "backward hooks of all modules": _Setting(_full_backward, _put_full_backward, True),
        "hooks of all modules": _Setting(_global_hooks, _put_global_hooks),
    }


_ATTENTION = ("flash", "mem_efficient", "math", "cudnn")
_REDUCED = ("allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction")


def matmul_precision() -> tuple[str | None, bool | None, tuple[str, ...]]:
    """By each of the ways to say it; None where torch does not answer, after they were used in turns."""
    import torch

    def answer(ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except RuntimeError:
            return None

    said = answer(torch.get_float32_matmul_precision), answer(lambda: torch.backends.cuda.matmul.allow_tf32)
    return *said, tuple(one.fp32_precision for one in _by_backend())


def put_matmul_precision(value: tuple[str | None, bool | None, tuple[str, ...]]) -> None:
    """In this order: the first sets it for all backends, the second for one, and only the last for each."""
    import torch

    if value == matmul_precision():
        return
    said, allowed, each = value
    if said is not None:
        torch.set_float32_matmul_precision(said)
    elif allowed is not None:
        torch.backends.cuda.matmul.allow_tf32 = allowed
    for one, precision in zip(_by_backend(), each, strict=True):
        if one.fp32_precision != precision:
            one.fp32_precision = precision


def _by_backend() -> list[Any]:
    """Where it can be said of each, from torch 2.9 on."""
    import torch

    places = (torch.backends.cuda, torch.backends.mkldnn)
    found = [getattr(place, "matmul", None) for place in places]
    return [one for one in found if hasattr(one, "fp32_precision")]


def _put_reduced(matmul: Any, value: tuple[Any, ...]) -> None:
    for name, one in zip(_REDUCED, value, strict=True):
        setattr(matmul, name, one)


def _ignore(result: object) -> None:
    """For calls whose result says only whether the machine can."""


def _default_device() -> str | None:
    """As the user named it: a slot calls `cuda` otherwise."""
    import torch

    from ..cuda.slot.side import CPU_AS_DEFAULT

    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    if context is None:
        return None
    return "cuda" if context.device == CPU_AS_DEFAULT else str(context.device)


def _put_default_type(on_cuda: bool) -> None:
    import torch

    name = torch.empty(0, device="cpu").type()  # of the default dtype
    with unheard():  # it is a way of old
        torch.set_default_tensor_type(name.replace("torch.", "torch.cuda.") if on_cuda else name)


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
    with unheard():  # torch is between two ways to say it
        try:
            return bool(cudnn.allow_tf32)
        except RuntimeError:
            return None  # set by the newer way


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


def _full_backward() -> bool | None:
    """Which of the two kinds of them there are: torch allows one."""
    from torch.nn.modules import module

    return module._global_is_full_backward_hook


def _put_full_backward(kind: bool | None) -> None:
    from torch.nn.modules import module

    module._global_is_full_backward_hook = kind


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
        name: {
            number: hook for number, hook in table.items() if not str(getattr(hook, "__module__", "")).startswith(_OURS)
        }
        for name, table in _hook_tables()
    }
    return {name: table for name, table in found.items() if table}


def _put_global_hooks(found: dict[str, dict[int, Any]]) -> None:
    for name, table in _hook_tables():
        table.update(found.get(name, {}))
