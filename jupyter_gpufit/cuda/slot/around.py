"""What else of torch must know of the slot: the parts that a function mode does not see.

Those are classes (autocast, GradScaler, Generator), what other threads and the backward pass run, the default device,
torch.compile, and the last resort of everything that still asks for CUDA.
"""

from __future__ import annotations

import linecache
import sys
import sysconfig
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import wraps
from typing import Any

import torch
from torch.utils._device import DeviceContext

from ...errors import NotOnASlot
from ..surface.asker import asked_by_torch, asker
from ..surface.streams import OneEvent, OneStream
from . import half
from .mode import SlotMode
from .side import CPU, CPU_AS_DEFAULT, SLOT, note, side_named, side_of

_BETWEEN = ("torch.", "jupyter_gpufit.cuda.")
_LIBRARIES = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
_PINS = "torch.utils.data._utils.pin_memory"

Replacement = tuple[object, str, object]  # where, which name, and by what


def torch_replacements(mode: SlotMode, compiling: ExitStack) -> Iterator[Replacement]:
    """What stands for what; to be read to the end before any of it is put in place."""
    slot = mode.budget.slot
    yield threading.Thread, "_bootstrap_inner", mode.around(vars(threading.Thread)["_bootstrap_inner"])
    # Torch turns modes off inside its own functions; backward() runs the user's hooks and recomputations.
    yield torch.autograd, "_engine_run_backward", mode.around(vars(torch.autograd)["_engine_run_backward"])
    for function in (torch.from_numpy, torch.frombuffer):
        yield torch, function.__name__, _on_host(function)
    shared = torch.storage._StorageBase._new_shared.__func__  # type: ignore[attr-defined]
    yield torch.storage._StorageBase, "_new_shared", classmethod(_in_shared_memory(shared))
    yield torch, "set_num_threads", _of_the_users(torch.set_num_threads)
    lazy: Any = vars(torch.nn.parameter)["UninitializedTensorMixin"]
    yield lazy, "materialize", _where_it_was(lazy.materialize)
    yield torch, "Generator", _generator(slot)
    yield torch, "Event", OneEvent
    yield torch, "Stream", OneStream
    yield torch, "compile", _uncompiled(torch.compile, compiling, slot)
    yield torch.cuda, "_lazy_init", _last_resort(slot)
    if torch.distributed.is_available():
        from .groups import groups_on

        yield from groups_on(slot)
    yield from _default_device(slot)
    yield from _mixed_precision()


def _on_host(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    @wraps(function)
    def make(*args: Any, **kwargs: Any) -> torch.Tensor:
        tensor = function(*args, **kwargs)
        note(tensor, "host")
        return tensor

    return make


def _of_the_users(real: Callable[[int], None]) -> Callable[[int], None]:
    """A thread that pins a loader's batches, which a CPU has not, sets one thread for itself.

    Torch then gives one to every thread that computes for the first time from then on, perhaps the cell's own: its sums
    over many rows come out with other last bits.
    """

    @wraps(real)
    def set_num_threads(number: int) -> None:
        if asker() != f"{_PINS}.":
            real(number)

    return set_num_threads


def _where_it_was(real: Callable[..., None]) -> Callable[..., None]:
    """A lazy module's parameter gets its memory where torch sees it, which is always the CPU."""

    @wraps(real)
    def materialize(self: torch.Tensor, *args: Any, **kwargs: Any) -> None:
        side = side_of(self)
        real(self, *args, **kwargs)
        note(self, side)

    return materialize


def _in_shared_memory(real: Callable[..., Any]) -> Callable[..., Any]:
    """Where the workers of a data loader collate a batch, on the device they are told that its tensors are on."""

    def new_shared(cls: type, size: int, *, device: Any = "cpu") -> Any:
        return real(cls, size, device=_cpu(torch.device(device).type))

    return new_shared


def _default_device(slot: str) -> Iterator[Replacement]:
    begin_real, enter_real, get_real = DeviceContext.__init__, DeviceContext.__enter__, torch.get_default_device

    def begin(self: DeviceContext, device: Any) -> None:
        side_named(device, slot)
        begin_real(self, device)

    def enter(self: DeviceContext) -> Any:
        # torch.set_default_device() puts it below our mode, which then does not see the device it adds. In a
        # `with torch.device("cuda"):` it is above, and does not come here.
        if self.device.type == SLOT.type:
            self.device = CPU_AS_DEFAULT
        return enter_real(self)  # type: ignore[no-untyped-call]

    def get_default_device() -> torch.device:
        return get_real() if asked_by_torch() else torch.empty(0).device

    yield DeviceContext, "__init__", begin
    yield DeviceContext, "__enter__", enter
    yield torch, "get_default_device", get_default_device


def _mixed_precision() -> Iterator[Replacement]:
    """The CPU's, in the dtype that a GPU would use: bfloat16 would be faster, but NumPy cannot take a result in it.

    A context goes on saying "cuda": one that an earlier cell made is used on another device, too.
    """
    autocast, scaler = torch.amp.autocast_mode.autocast, torch.amp.grad_scaler.GradScaler
    begin_real, scale_real = autocast.__init__, scaler.__init__
    begin_to_scale_real = scaler._lazy_init_scale_growth_tracker
    enabled_real, dtype_real = torch.is_autocast_enabled, torch.get_autocast_dtype
    enable_real, set_dtype_real = torch.set_autocast_enabled, torch.set_autocast_dtype

    def begin(self: Any, device_type: str, dtype: torch.dtype | None = None, *args: Any, **kwargs: Any) -> None:
        begin_real(self, _cpu(device_type), dtype or get_autocast_dtype(device_type), *args, **kwargs)
        self.device = device_type

    def scale(self: Any, device: str = "cuda", *args: Any, **kwargs: Any) -> None:
        scale_real(self, _cpu(device), *args, **kwargs)

    def begin_to_scale(self: Any, *args: Any) -> None:
        begin_to_scale_real(self, *args)
        note(self._scale, "slot")  # where its first loss was; torch saw the CPU there
        note(self._growth_tracker, "slot")

    def is_autocast_enabled(device_type: str = "cuda") -> bool:
        return enabled_real(_cpu(device_type))

    def get_autocast_dtype(device_type: str) -> torch.dtype:
        known = enabled_real("cpu") or asked_by_torch()  # a context must put back what it has found
        return dtype_real(_cpu(device_type) if known else device_type)

    def set_autocast_enabled(*args: Any) -> None:
        enable_real("cpu", *args) if len(args) == 1 else enable_real(_cpu(args[0]), args[1])

    def set_autocast_dtype(device_type: str, dtype: torch.dtype) -> None:
        if dtype is torch.float16 and device_type == "cuda" and enabled_real("cpu"):
            half.quicken()
        set_dtype_real(_cpu(device_type), dtype)

    yield autocast, "__init__", begin
    yield scaler, "__init__", scale
    yield scaler, "_lazy_init_scale_growth_tracker", begin_to_scale
    yield torch, "is_autocast_enabled", is_autocast_enabled
    yield torch, "get_autocast_dtype", get_autocast_dtype
    yield torch, "set_autocast_enabled", set_autocast_enabled
    yield torch, "set_autocast_dtype", set_autocast_dtype
    yield torch.amp, "custom_fwd", _with_cpu(torch.amp.custom_fwd)
    yield torch.amp, "custom_bwd", _with_cpu(torch.amp.custom_bwd)


def _cpu(device_type: str) -> str:
    return "cpu" if device_type == "cuda" else device_type


def _with_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, device_type: str, **kwargs: Any) -> Any:
        return function(*args, device_type=_cpu(device_type), **kwargs)

    return call


class CudaGenerator(torch.Generator):
    """One that the cell made for `cuda`: the CPU's, which says where a GPU's would be."""

    def __new__(cls) -> CudaGenerator:
        return super().__new__(cls, "cpu")  # type: ignore[call-arg]

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return CPU if asked_by_torch() else SLOT


def _generator(slot: str) -> type:
    """A class that makes torch.Generator's, so that nothing of ours stays in what the cell keeps."""
    real = torch.Generator

    def make(cls: type, device: Any = "cpu") -> torch.Generator:
        return CudaGenerator() if side_named(device, slot) == "slot" else real(device)

    meta = type("_", (type(real),), {"__instancecheck__": lambda _, value: isinstance(value, real)})
    generator: type = meta("Generator", (real,), {"__new__": make})
    return generator


def _uncompiled(real: Callable[..., Any], compiling: ExitStack, slot: str) -> Callable[..., Any]:
    """Compiled models are made, and run uncompiled: the compiler would trace our mode too, and stop at every call."""

    @wraps(real)
    def compile(*args: Any, **kwargs: Any) -> Any:
        run_uncompiled(compiling)
        where = f"on the CPU slot {slot}" if slot else "in the notebook's own process"
        if not _is_imported(sys._getframe(1).f_globals):
            warnings.warn(f"torch.compile: {where} the model runs uncompiled.", stacklevel=2)
        return real(*args, **kwargs)

    return compile


def _is_imported(asker: dict[str, Any]) -> bool:
    """Whether a library compiles something of its own as it is imported (bitsandbytes): no model of the cell's."""
    importing = getattr(asker.get("__spec__"), "_initializing", False)
    return importing and str(asker.get("__file__")).startswith(_LIBRARIES)


def run_uncompiled(until: ExitStack) -> None:
    """Let all that torch.compile made run as if it had not."""
    until.enter_context(torch.compiler.set_stance("force_eager"))


def _last_resort(slot: str) -> Callable[[], None]:
    """All that still asks for CUDA ends here, where it would hear "Torch not compiled with CUDA enabled"."""

    def refuse() -> None:
        raise NotOnASlot(_call_under_way(), slot)

    return refuse


def _call_under_way() -> str:
    """The function of torch that the user's line called, or else the line itself."""
    called, frame = "", sys._getframe(2)
    while (module := str(frame.f_globals.get("__name__"))).startswith(_BETWEEN) and frame.f_back is not None:
        called = f"{module}.{frame.f_code.co_qualname}" if module.startswith("torch.") else called
        frame = frame.f_back
    return called or linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip() or "This call"
