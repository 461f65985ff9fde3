"""The lab cannot be relied on, or cannot be made."""

from __future__ import annotations

from dataclasses import dataclass

from ..units import format_duration
from .base import GpufitError


class LabError(GpufitError):
    """The lab cannot be relied on, or cannot be made."""


@dataclass(eq=False)
class LabUnsound(LabError):
    path: str
    why: str

    def __str__(self) -> str:
        return (
            f"{self.path} cannot be the lab: {self.why}."
            " `gpufit lab check` tells more, and `sudo gpufit lab init` makes a sound one."
        )


@dataclass(eq=False)
class LabGone(LabError):
    path: str

    def __str__(self) -> str:
        return (
            f"The lab {self.path} is gone: somebody emptied it. An administrator makes it again: sudo gpufit lab init."
            " Running jobs go on, and enter it again by themselves. New jobs wait until it is there."
        )


@dataclass(eq=False)
class LabBusy(LabError):
    path: str
    seconds: float  # for which it was asked for
    holder: str  # "bob's process 1234"; empty: unknown

    def __str__(self) -> str:
        who = self.holder or "another process"
        return (
            f"{who} has held {self.path} for over {format_duration(self.seconds)}, which takes others a millisecond."
            " Jobs start without it, a little later; an administrator can end that process."
        )


@dataclass(eq=False)
class ClaimGone(LabError):
    id: str
    lab: str

    def __str__(self) -> str:
        return f"The claim {self.id} is no longer in {self.lab}: somebody emptied the lab. Start the job again."


@dataclass(eq=False)
class CannotInit(LabError):
    path: str
    why: str
    mend: str

    def __str__(self) -> str:
        return f"{self.path} cannot become the lab: {self.why}. {self.mend}"


@dataclass(eq=False)
class CannotUninstall(LabError):
    path: str
    why: str
    mend: str

    def __str__(self) -> str:
        return f"{self.path} stays, and so does everything else: {self.why}. {self.mend}"


@dataclass(eq=False)
class NotRoot(LabError):
    command: str

    def __str__(self) -> str:
        return f"Only root can make the lab that all users share. Run: {self.command}"
