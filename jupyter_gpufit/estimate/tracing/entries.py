"""What the books say of one block."""

from __future__ import annotations

from ..reckoning.record import Kind, Phase


class BookEntry:
    """A block while the trace runs."""

    __slots__ = ("alias", "kind", "module", "op", "phase", "saved", "size", "step")

    def __init__(self, size: int, phase: Phase, kind: Kind | None, op: str, module: str, step: int) -> None:
        self.size, self.phase, self.kind, self.op, self.module, self.step = size, phase, kind, op, module, step
        self.saved = False  # alive when a backward began
        self.alias: list[int] = []  # the blocks that a GPU would have written into instead
