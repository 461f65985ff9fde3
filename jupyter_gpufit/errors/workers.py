"""Something is wrong between a front and a worker."""

from __future__ import annotations

from dataclasses import dataclass

from ..units import device_words
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
    name: str  # the variable; empty where it is about none
    why: str  # a sentence where no variable is named

    def __str__(self) -> str:
        if not self.name:
            return self.why
        return f"{self.name} could not be opened in the worker: {self.why} The notebook's variables are unchanged."


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


RUN_AGAIN = "Run the cell again. If it has a checkpoint, it goes on from there: %gpufit resume"


@dataclass(eq=False)
class RanksError(WorkerError):
    """A training on several devices cannot go on with all of its ranks."""


@dataclass(eq=False)
class RankLost(RanksError):
    rank: int
    device: str
    how: str  # "was ended by SIGKILL"
    said: str = ""  # its traceback

    def __str__(self) -> str:
        said = f"\n\nWhat it said last:\n{self.said}" if self.said else ""
        return (
            f"This training's process on {device_words([self.device])} {self.how}. The others cannot go on without it."
            f" {RUN_AGAIN}{said}"
        )


@dataclass(eq=False)
class RanksDisagree(RanksError):
    rank: int
    device: str
    first: str  # what rank 0 does: "add up float32 of shape (3,)"
    other: str

    def __str__(self) -> str:
        where = device_words([self.device])
        return (
            f"All devices of a training run the same cell. It went another way on {where}: the first device came to"
            f" {self.first}, and {where} to {self.other}. A cell that decides by the time, by random numbers that it"
            " did not seed or by what it finds on the disk can do that. Change this, or run it with --gpus 1."
        )


@dataclass(eq=False)
class PartGone(RanksError):
    rank: int

    def __str__(self) -> str:
        return (
            f"A part of this training was on device {self.rank + 1} of the job alone, and can no longer be read there."
            f" {RUN_AGAIN}"
        )


@dataclass(eq=False)
class HasItsOwnRanks(RanksError):
    def __str__(self) -> str:
        return (
            "This cell uses torch.distributed itself, and --gpus already has it run on several devices. Leave out"
            " --gpus, or leave out init_process_group: with --gpus an ordinary cell for one device is what is wanted."
        )
