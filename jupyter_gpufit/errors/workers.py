"""Something is wrong between a front and a worker."""

from __future__ import annotations

from dataclasses import dataclass

from .base import GpufitError


class WorkerError(GpufitError):
    """Something is wrong between a front and a worker."""


@dataclass(eq=False)
class WorkerDied(WorkerError):
    name: str
    how: str  # "was killed by SIGKILL (out of memory: ...)"

    def __str__(self) -> str:
        return f"The worker of {self.name} {self.how} Its output so far: %gpufit attach {self.name}"


@dataclass(eq=False)
class Unreachable(WorkerError):
    name: str
    why: str

    def __str__(self) -> str:
        return f"The worker of {self.name} does not answer ({self.why}). If it stays so: gpufit stop {self.name}"


@dataclass(eq=False)
class CannotArrive(WorkerError):
    name: str  # the variable
    why: str

    def __str__(self) -> str:
        return (
            f"{self.name or 'A variable'} could not be opened at the other end: {self.why}"
            " The kernel's own objects are as they were."
        )


@dataclass(eq=False)
class PathTooLong(WorkerError):
    path: str
    limit: int

    def __str__(self) -> str:
        return (
            f"The control socket {self.path} would have {len(self.path.encode())} bytes in its path, and the system"
            f" allows {self.limit}. Set GPUFIT_RUNTIME to a directory with a shorter name."
        )


@dataclass(eq=False)
class CannotSuspend(WorkerError):
    why: str  # half a sentence

    def __str__(self) -> str:
        return f"The driver cannot hold the process off its device: {self.why}. Its checkpoint is on the disk."
