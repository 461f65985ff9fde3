"""Arrays of what is fake on the host, as a large model that a cell makes and leaves there: their values are guessed.

Of what is on the device there are none: there torch refuses, in a trial run as on a GPU.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ...cuda.stand_in.device import on_stand_in
from .answers import GUESSED_ON_HOST
from .books import Books


def begin(books: Books) -> None:
    """`numpy()`, which `numpy.asarray()` asks, too."""
    real: Any = torch.Tensor.numpy

    def numpy(t: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if isinstance(t, FakeTensor) and not on_stand_in(t):
            books.notes[GUESSED_ON_HOST] += 1
            t = torch.ones(t.shape, dtype=t.dtype, requires_grad=t.requires_grad)
        return real(t, *args, **kwargs)

    torch.Tensor.numpy = numpy  # type: ignore[method-assign, assignment]
