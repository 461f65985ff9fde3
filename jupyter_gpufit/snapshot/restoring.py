"""What some objects hand to whoever restores: what is to be done when all of them are there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .users_files import UsersFiles


@dataclass
class Restoring:
    """What objects hand over while they are made, to be done when all are there."""

    files: UsersFiles
    remarks: list[str]
    last: list[Callable[[], None]] = field(default_factory=list)
