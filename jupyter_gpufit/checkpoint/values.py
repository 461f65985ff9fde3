"""What a training is when it is saved: one pickled graph, and the bytes of its tensors beside it.

Only values: the writer's own process imports this and must not import torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

# safetensors' names of types, and the bytes of one element.
DTYPES = {
    **{"F64": 8, "I64": 8, "U64": 8, "C64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2},
    **{"F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I8": 1, "U8": 1, "BOOL": 1},
}

Changes = Literal["seldom", "often"]


@dataclass(frozen=True)
class Blob:
    """Bytes that lie beside the graph, which refers to them by their place in `Snapshot.blobs`."""

    name: str  # unique in the snapshot: `model.l.0.weight`, or `s17` for bytes that are no tensor by themselves
    dtype: str  # of DTYPES; "U8" for plain bytes
    shape: tuple[int, ...]
    nbytes: int  # = elements of the shape times the type's size
    write: Callable[[memoryview], None]  # copies its bytes to where they go; called at most once, in the pause
    # Where the bytes lie, contiguous, if that is plain CPU memory: then threads copy from there and `write` is not
    # called. The memory must stay as it is, and alive, until `Writer.save` has returned (let `write` hold it).
    address: int | None = None
    # Data that training hardly changes (what came with the shipment, frozen weights): written once, and while its bytes
    # stay the same the next checkpoints link to the file that holds it. A hint: whatever changes is written.
    changes: Changes = "often"


@dataclass(frozen=True)
class Snapshot:
    """A training at a safe point. Its blobs are read where they lie: nothing may train before they are copied."""

    graph: bytes
    blobs: tuple[Blob, ...]
    remarks: tuple[str, ...] = ()  # what the user should know of it: sentences
    files: tuple[str, ...] = ()  # the user's own that the training writes to: they must be on the disk, too
