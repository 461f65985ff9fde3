"""What an estimate comes to: the bytes that a job claims."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Needed:
    """The memory a job will claim."""

    memory: int | None  # bytes on one device; None: the whole device
    reason: str  # where the number comes from
