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
        said = f"\n\nWhat rank {self.rank} said last:\n{self.said}" if self.said else ""
        return (
            f"Rank {self.rank} of this training, on {self.device}, {self.how}, and the others cannot go on without it."
            f" Run the cell again; or go on from a checkpoint, if it has one, with %gpufit resume.{said}"
        )


@dataclass(eq=False)
class RanksDisagree(RanksError):
    rank: int
    device: str
    first: str  # what rank 0 does: "add up float32 of shape (3,)"
    other: str

    def __str__(self) -> str:
        return (
            f"Each of a training's devices runs the same cell, and it went another way on {self.device}: rank 0 came to"
            f" {self.first}, and rank {self.rank} to {self.other}. A cell that decides by the time, by random numbers"
            " that it did not seed or by what it finds on the disk can do that. Change this, or run it with --gpus 1."
        )


@dataclass(eq=False)
class PartGone(RanksError):
    rank: int

    def __str__(self) -> str:
        return (
            f"A part of this training was on rank {self.rank} alone, and cannot be had from it any more."
            " Run the cell again; or go on from a checkpoint, if it has one, with %gpufit resume."
        )


@dataclass(eq=False)
class HasItsOwnRanks(RanksError):
    def __str__(self) -> str:
        return (
            "This cell uses torch.distributed itself, and --gpus already has it run on several devices. Leave out"
            " --gpus, or leave out init_process_group: with --gpus an ordinary cell for one device is what is wanted."
        )
