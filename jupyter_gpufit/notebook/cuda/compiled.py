"""What to say where code that a library has compiled for a GPU was given a tensor of the stand-in.

Such code takes addresses and streams, and finds those of the host's memory. It fails in its own words, which tell
nobody that `cuda` is a stand-in here.
"""

from __future__ import annotations

import re
from ctypes import ArgumentError

from ...system.packages import is_installed

_OF_A_GPU = re.compile(r"cuda|\bgpus?\b|nvidia|triton", re.IGNORECASE)
_TWO_SIDES = "same device"  # which is the cell's own mistake, on a GPU as well
HINT = (
    "cuda in this kernel is a stand-in, whose tensors are in the host's memory: what {package} has compiled for a GPU"
    " cannot compute on them. Run this cell on a GPU, by %%gpufit train; put these tensors on the CPU; or restart the"
    " kernel with GPUFIT_KERNEL_CUDA=real, which leaves cuda as it is."
)


def hint(error: BaseException) -> str:
    """Empty: it is none of these."""
    package = _raised_by(error)
    words = str(error)
    if not package or _TWO_SIDES in words or not (isinstance(error, ArgumentError) or _OF_A_GPU.search(words)):
        return ""
    return HINT.format(package=package)


def _raised_by(error: BaseException) -> str:
    """The package whose line was the last before what is not written in Python; empty: the user's own, or torch."""
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    name = str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
    return name if is_installed(trace.tb_frame.f_code.co_filename) and name != "torch" else ""
