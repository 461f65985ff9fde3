"""A checkpoint could not be written or read."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from .base import GpufitError


class CheckpointError(GpufitError):
    """A checkpoint could not be written or read."""


@dataclass(eq=False)
class NotHere(CheckpointError):
    why: str  # a sentence

    def __str__(self) -> str:
        return f"The training cannot be saved at this moment: {self.why} It is tried again at the next iteration."


@dataclass(eq=False)
class CannotSave(CheckpointError):
    problems: tuple[tuple[str, str], ...]  # where it is (model.cb['q'][1]), and a sentence: what it is and what to do
    passing: bool = False  # all of it is in functions that are called just now and will end

    def __str__(self) -> str:
        found = "\n".join(f"{path}: {why}" for path, why in self.problems[:10])
        more = f"\n(and {len(self.problems) - 10} more)" if len(self.problems) > 10 else ""
        later = "\nThis may pass: ask again when the function that runs just now has ended." if self.passing else ""
        return f"The training cannot be saved, and goes on.\n{found}{more}{later}"


@dataclass(eq=False)
class NotSaved(CheckpointError):
    path: str
    why: str
    remedy: str

    def __str__(self) -> str:
        return (
            f"The checkpoint was not saved: {self.why} ({self.path})."
            f" The training goes on, and older checkpoints are as they were. {self.remedy}"
        )


@dataclass(eq=False)
class TakenOver(CheckpointError):
    path: str
    epoch: int  # the writer's
    current: int  # the job's

    def __str__(self) -> str:
        return (
            f"The checkpoint in {self.path} was not saved: worker {self.current} of this job has taken over, and this"
            f" is worker {self.epoch}. Nothing needs to be done; stop this process if it still runs."
        )


@dataclass(eq=False)
class CheckpointBroken(CheckpointError):
    path: str
    why: str

    def __str__(self) -> str:
        return f"The checkpoint {self.path} cannot be used: {self.why} A resume takes the one before it."


@dataclass(eq=False)
class WouldOverwrite(CheckpointError):
    path: str
    changed: int  # nanoseconds since 1970: when the training was the last to write to it

    def __str__(self) -> str:
        seconds, rest = divmod(self.changed, 10**9)
        return (
            f"Somebody else has written to {self.path} after the training did. Going on would overwrite that. Copy the"
            f" file. Then run this, and resume again: touch -d @{seconds}.{rest:09} {shlex.quote(self.path)}"
        )
