"""Who asks: torch itself, which must hear the truth, or the code of the user and of the libraries they use."""

from __future__ import annotations

import sys

# Modules through which a question passes.
_BETWEEN = (
    "jupyter_gpufit.cuda.slot",
    "jupyter_gpufit.cuda.surface",
    "jupyter_gpufit.cuda.types",
    "torch.utils._device",
)


def asked_by_torch(*but_not: str) -> bool:
    """Whether torch (or this package) asks, and not the user's code, a library of theirs, or a module of `but_not`.

    Torch must see the CPU, to choose as it would have chosen for the CPU, bit for bit. Some of its modules only pass on
    what the user said.
    """
    module = asker()
    return module.startswith(("torch.", "jupyter_gpufit.")) and not module.startswith(but_not)


def asker(above: int = 1) -> str:
    """The module of the innermost frame that is not a mode's; `above`: so many frames are passed over in any case."""
    frame = sys._getframe(above)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith(_BETWEEN):
        frame = frame.f_back
    # With the dot, torch itself is found by the prefix that excludes torchvision.
    return f"{frame.f_globals.get('__name__')}."
