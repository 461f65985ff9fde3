"""How a cell is shared out over several devices; pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sharing:
    """What each of the devices has."""

    devices: int = 1
    split: bool = False  # of what the optimizer keeps its part alone; else all of it

    @property
    def words(self) -> str:
        if self.devices == 1:
            return "as it is"
        return "optimizer's state split" if self.split else "data parallel"
