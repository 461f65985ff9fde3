"""Single numbers of a GPU, for the curves, without waiting for it.

At a safe point of the loop, in the loop's own thread and stream, a copy into pinned memory is queued behind what
computes the number; a look at the next second finds it there, or looks again. So nobody waits, no other thread touches
the GPU while a graph may be captured, and no reference to the loop's tensors is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

MOST = 16  # numbers at once


class Copies:
    """The numbers that are on their way, at most one set of them."""

    def __init__(self, find: Callable[[], Mapping[str, torch.Tensor]]) -> None:
        self._find = find
        self._names: tuple[str, ...] = ()
        self._buffer: Any = None
        self._done: Any = None  # a CUDA event

    @property
    def under_way(self) -> bool:
        return self._done is not None

    def take(self) -> None:
        """Queue the copies; in the main thread, at a safe point."""
        import torch

        if torch.cuda.is_current_stream_capturing():
            return
        # In a mode of our own: the buffer must be one that can be written to in every mode of the user's.
        with torch.inference_mode(False), torch.no_grad():
            here = torch.cuda.current_device()
            found = [(name, one) for name, one in self._find().items() if one.get_device() == here][:MOST]
            if not found:
                return
            if self._buffer is None:
                self._buffer = _pinned()
            for index, (_, one) in enumerate(found):
                self._buffer[index].copy_(one.detach().reshape(()), non_blocking=True)
            done = torch.cuda.Event()
            done.record()
        self._names, self._done = tuple(name for name, _ in found), done

    def arrived(self) -> dict[str, float]:
        """What has come meanwhile; nothing while it is still on its way."""
        if self._done is None or not self._done.query():
            return {}
        self._done = None
        return dict(zip(self._names, self._buffer.tolist(), strict=False))


def _pinned() -> torch.Tensor:
    import torch

    return torch.empty(MOST, dtype=torch.float32, device="cpu", pin_memory=True)
