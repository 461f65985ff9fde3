"""What looks at a tensor's memory past all operations: `numpy()`, `data_ptr()`, copies, `torch.save`.

What is asked for so is brought to the device and stays there; `torch.save` and pickles read the host's copy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
import torch.utils.dlpack
from torch.overrides import TorchFunctionMode

_READS = "__array__ __dlpack__ numpy share_memory_ storage tolist".split()
_OURS = ("torch.", "jupyter_gpufit.")  # who ask for an address to tell tensors apart
_TO_OTHERS = "torch.multiprocessing."
_WAY = ("torch._tensor", "torch.nn.parameter", "torch.overrides", __name__)  # through torch, from who asks


class Holds(Protocol):
    """What is asked of the pager."""

    def have(self, t: torch.Tensor) -> None: ...
    def hold(self, t: torch.Tensor) -> None: ...
    def on_host(self, t: torch.Tensor) -> torch.UntypedStorage | None: ...


class Reach(TorchFunctionMode):
    """Entered above a slot's own mode, whose questions do not come here."""

    def __init__(self, pager: Holds) -> None:
        super().__init__()
        self._pager = pager
        self._special: dict[Any, Callable[[torch.Tensor], Any]] = {
            getattr(torch.Tensor, name): self._read for name in _READS
        }
        self._special[torch.Tensor.data_ptr] = self._look
        self._special[torch.Tensor.untyped_storage] = self._storage

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        special = self._special.get(func)
        found = special(args[0]) if special is not None else None
        return func(*args, **kwargs or {}) if found is None else found

    def _read(self, t: torch.Tensor) -> None:
        """Whoever asks: torch's own modules do so for the user (`writer.add_histogram`, `from_dlpack`)."""
        self._pager.hold(t)

    def _look(self, t: torch.Tensor) -> None:
        if not _asker()[0].startswith(_OURS):
            self._pager.hold(t)

    def _storage(self, t: torch.Tensor) -> torch.UntypedStorage | None:
        asker, way = _asker()
        if asker.startswith(_OURS[1]):
            return None
        if "__deepcopy__" in way or asker == "copy.":
            self._pager.have(t)
        elif "_reduce_ex_internal" in way:
            return self._pager.on_host(t)  # as a file has it: one storage for all that share it
        elif not asker.startswith(_OURS) or asker.startswith(_TO_OTHERS):
            self._pager.hold(t)
        return None


@contextmanager
def handed_out(pager: Holds) -> Iterator[None]:
    """Hold what goes to other libraries by a function that asks no mode."""
    before = [(module, vars(module)["to_dlpack"]) for module in (torch, torch.utils.dlpack)]

    def to_dlpack(t: torch.Tensor) -> Any:
        pager.hold(t)
        return before[0][1](t)

    for module, _ in before:
        setattr(module, "to_dlpack", to_dlpack)  # noqa: B010 - torch does not say that it has it
    try:
        yield
    finally:
        for module, real in before:
            setattr(module, "to_dlpack", real)  # noqa: B010


def _asker() -> tuple[str, list[str]]:
    """The module of the innermost frame that is not torch's way here, with a dot; and that way's functions."""
    frame, way = sys._getframe(1), []
    while frame.f_back is not None and frame.f_globals.get("__name__") in _WAY:
        way.append(frame.f_code.co_name)
        frame = frame.f_back
    return f"{frame.f_globals.get('__name__')}.", way
