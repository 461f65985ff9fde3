"""The device that stands for a GPU in the traced child: torch's PrivateUse1 backend, on which all tensors are fake.

Fake `cuda` tensors will not do: without a CUDA build, the first operation on one that requires grad aborts the
process. Nothing here can be undone, so it is only for a forked child.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import backend_registration
from torch.utils._device import DeviceContext

STAND_IN = "standin"  # found again in torch's own messages, see errors.py; hence no common word
_TRUE_FOR = (
    "torch.",
    "jupyter_gpufit.cuda.",
    "jupyter_gpufit.estimate.",
    "jupyter_gpufit.fit.several.",
)  # whose code must see the stand-in, or it would compute as on the CPU


class Backend:
    """What torch asks of a backend's module."""

    is_available = is_initialized = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 1)
    current_device = staticmethod(lambda: 0)
    _is_in_bad_fork = staticmethod(lambda: False)  # torch.manual_seed asks
    manual_seed = manual_seed_all = staticmethod(lambda seed: None)
    get_amp_supported_dtype = staticmethod(lambda: [torch.float16, torch.bfloat16, torch.float32])
    get_rng_state = staticmethod(lambda device=0: torch.empty(16, dtype=torch.uint8, device="cpu"))
    set_rng_state = staticmethod(lambda state, device=0: None)
    get_rng_state_all = staticmethod(lambda: [])  # type: ignore[var-annotated]
    synchronize = set_device = staticmethod(lambda device=None: None)

    class device(contextlib.nullcontext[None]):
        """`with torch.standin.device(0):`, in torch's own checkpointing."""


class FakeMode(FakeTensorMode):
    @property
    def avoid_device_init(self) -> bool:
        return True  # else it believes that a real device is there, and initialises it


def begin() -> FakeMode:
    """Make the stand-in the accelerator of this process."""
    # Experimental in torch 2.13, hence checked here and not at the first operation.
    register = getattr(backend_registration, "_setup_privateuseone_for_python_backend", None)
    if register is None:
        raise NotImplementedError("that takes torch 2.10 or later")
    register(rename=STAND_IN, backend_module=Backend())
    torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(data, device=...) becomes a copy that we see
    _replace_properties()
    _replace_default_device()
    return FakeMode(allow_non_fake_inputs=True)


def on_stand_in(t: object) -> bool:
    return isinstance(t, FakeTensor) and t.fake_device.type == STAND_IN


def told_device(found: torch.device, above: int = 2) -> torch.device:
    """What whoever asks for a tensor's device is told, so many frames above."""
    asker = sys._getframe(above).f_globals.get("__name__", "")
    if found.type != STAND_IN or (asker + ".").startswith(_TRUE_FOR):
        return found
    return torch.device("cuda", 0)


def is_cuda(device: object) -> bool:
    if isinstance(device, torch.device):
        return device.type == "cuda"
    return isinstance(device, str) and device.split(":")[0] == "cuda"


def mapped(device: Any) -> Any:
    if is_cuda(device):
        return torch.device(STAND_IN, 0)
    # Fake tensors keep the index of "cpu:0", which no tensor has, and then differ from those of "cpu".
    numbered = isinstance(device, str | torch.device) and str(device).startswith("cpu:")
    return torch.device("cpu") if numbered else device


def _replace_properties() -> None:
    true_device = FakeTensor.device.fget  # type: ignore[attr-defined]

    def device(self: FakeTensor) -> torch.device:
        return told_device(true_device(self), 2)

    def format(self: FakeTensor, spec: str) -> str:
        return self.item().__format__(spec) if self.dim() == 0 else object.__format__(self, spec)

    FakeTensor.device = property(device)  # type: ignore[assignment]
    FakeTensor.__format__ = format  # type: ignore[assignment]


def _replace_default_device() -> None:
    begin_real = DeviceContext.__init__
    generator_real: Any = torch.Generator

    def begin_mapped(self: DeviceContext, device: Any) -> None:
        begin_real(self, mapped(device))

    class Generator(generator_real):  # type: ignore[misc]
        def __new__(cls, device: Any = "cpu") -> Any:
            return generator_real.__new__(cls, "cpu" if is_cuda(device) else device)

        def __init__(self, device: Any = "cpu") -> None: ...

    DeviceContext.__init__ = begin_mapped  # type: ignore[method-assign]
    torch.Generator = Generator  # type: ignore[misc]
