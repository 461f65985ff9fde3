"""The checkpoint's own calls of torch go past the modes that the cell is in: those may count, or answer otherwise.

So do they past a slot's: to a checkpoint its tensors are what they are, on the CPU.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def past_modes() -> Iterator[None]:
    """No mode of this thread sees what is called inside, nor does a transform of torch.func wrap what it gives."""
    torch = sys.modules.get("torch")
    if torch is None or getattr(torch.__spec__, "_initializing", False):
        yield
        return
    # Not torch's own way to turn dispatch modes off: it imports the compiler, which takes seconds.
    from torch.utils import _python_dispatch as dispatch

    with torch._C.DisableTorchFunction(), torch._C._DisableFuncTorch():
        stack = [dispatch._pop_mode() for _ in range(torch._C._len_torch_dispatch_stack())]
        try:
            yield
        finally:
            for mode in reversed(stack):
                dispatch._push_mode(mode)
