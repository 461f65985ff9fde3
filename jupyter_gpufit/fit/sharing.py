"""How a cell is shared out over several devices; pure."""

from __future__ import annotations

from dataclasses import dataclass

STATES, GRADIENTS, PARAMETERS = 1, 2, 3  # what each has its part of alone: this, and what is less; ZeRO's stages
SPLITS = (0, STATES, GRADIENTS, PARAMETERS)  # 0: nothing
_WHAT = {STATES: "optimizer's state", GRADIENTS: "state and gradients", PARAMETERS: "state, gradients and parameters"}


def words_of(split: int) -> str:
    return f"{_WHAT[split]} split" if split else "data parallel"


@dataclass(frozen=True)
class Sharing:
    """What each of the devices has."""

    devices: int = 1
    split: int = 0

    @property
    def words(self) -> str:
        if self.devices == 1:
            return "as it is"
        return words_of(self.split)
