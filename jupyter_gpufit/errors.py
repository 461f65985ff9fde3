"""Every error a user can meet. Each carries its data and builds its own sentence, which names the next step.

GpufitError
├── BadQuantity            "12 parsecs" where an amount was wanted
├── BadSetting             a setting that is unknown or cannot be read
├── BadOption              an option of a command that makes no sense
├── CommandError           `gpufit run` cannot start the command
│   ├── NoSuchCommand
│   └── NotExecutable
├── CellError              the cell cannot run as it stands
│   ├── NameNotDefined         a name that neither the notebook nor the cell defines
│   ├── CannotTravel           a variable that cannot go to the worker
│   ├── NoRoomToTravel         the variables need more memory than is free
│   └── CellFailedInTrial      an exception of the cell's own, while it was estimated
├── JobError
│   ├── NoSuchJob
│   │   └── NoJobMeant         none was named, and there is none that could be meant
│   ├── NoSuchHold             nobody holds anything under this name, or waits
│   ├── SeveralMeant           a name that several claims have
│   ├── JobBusy                the verb needs a job that has ended
│   ├── NotResumable           a job that runs, has ended well, or left no checkpoint
│   ├── NotNow                 what a running job was asked for, and refused; it goes on
│   ├── HasEnded               the verb needs a job that runs
│   ├── CannotGoOn             a checkpoint could not be gone on from; it is still there
│   ├── NotYours               files that another user could have written
│   └── VersionDiffers         worker and front are of different versions
├── WorkerError
│   ├── WorkerDied             the process ended without saying how
│   ├── Unreachable            the control socket does not answer
│   ├── CannotArrive           a variable that could not be opened at the other end
│   └── PathTooLong            the control socket's path exceeds the system's limit
├── CheckpointError
│   ├── NotHere                no place at which the cell can be left; the next one may do
│   ├── CannotSave             objects that no checkpoint can hold; the training goes on
│   ├── NotSaved               a checkpoint could not be written; the training goes on
│   ├── TakenOver              a later worker has the job: an older one publishes nothing
│   └── CheckpointBroken       a checkpoint that is not what was written
├── NoEstimate             the process that estimates failed
├── StorageError           a directory of ours cannot be written
├── LabUnsound             claims/lab.py: the directory that all users share cannot be relied on
├── LabBusy                claims/mutex.py: somebody keeps its mutex
├── ClaimGone              claims/granted.py: a claim to be taken over that nobody holds any more
├── CellFailed             show.py: the cell's own exception, as its worker showed it
└── DeviceError
    ├── NoDevice               neither GPU nor CPU slot here
    ├── NoSuchDevice
    ├── NoSuchCard             a type of GPU that no table of ours has
    ├── DeviceUnreadable       NVML answered with an error
    ├── NeverFits              no device here is large enough, even idle
    └── NotOnASlot             the cell calls for what only a GPU has
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import ClassVar


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """A sentence that offers the nearest known words, or nothing."""
    near = get_close_matches(word, known, n=2)
    return f" Did you mean {' or '.join(near)}?" if near else ""


@dataclass(eq=False)
class GpufitError(Exception):
    """The base of all our errors; shown to users as its sentence, without a traceback."""

    exit_code: ClassVar[int] = 2  # of the command line

    def __reduce__(self) -> tuple[type[GpufitError], tuple[object, ...]]:
        # Exception pickles the positional arguments of its construction, which keyword arguments would leave empty.
        return type(self), tuple(getattr(self, field.name) for field in fields(self))


@dataclass(eq=False)
class BadQuantity(GpufitError):
    text: str
    wanted: str

    def __str__(self) -> str:
        return f"{self.text!r} is not {self.wanted}."


@dataclass(eq=False)
class BadSetting(GpufitError):
    name: str
    source: str  # the file or environment variable it came from
    why: str

    def __str__(self) -> str:
        return f"The setting {self.name} in {self.source} cannot be used: {self.why}"


@dataclass(eq=False)
class BadOption(GpufitError):
    why: str

    def __str__(self) -> str:
        return self.why


class CommandError(GpufitError):
    """The command of `gpufit run` cannot be started."""


@dataclass(eq=False)
class NoSuchCommand(CommandError):
    exit_code = 127  # as shells have it
    command: str

    def __str__(self) -> str:
        return (
            f"There is no command {self.command!r} on the PATH. Nothing was queued: check its name, or give its path."
        )


@dataclass(eq=False)
class NotExecutable(CommandError):
    exit_code = 126
    command: str
    why: str

    def __str__(self) -> str:
        return f"{self.command} cannot be run ({self.why}). If it is a script: gpufit run -- python {self.command}"


class CellError(GpufitError):
    """The cell cannot run as it stands; nothing was started."""


@dataclass(eq=False)
class NameNotDefined(CellError):
    name: str
    line: int
    near: tuple[str, ...] = ()

    def __str__(self) -> str:
        return (
            f"name {self.name!r} is not defined (line {self.line} of the cell).{did_you_mean(self.name, self.near)}"
            " Nothing was started: run the cell that defines it first."
        )


@dataclass(eq=False)
class CannotTravel(CellError):
    name: str  # the variable the cell names
    path: str  # where in it: model.cb['q'][1]
    why: str  # what stands there, and what to do
    line: int | None = None  # the line of the cell that uses the name
    others: tuple[CannotTravel, ...] = ()  # the rest of what was found

    def __str__(self) -> str:
        found = "\n".join(one._sentence() for one in (self, *self.others))
        return f"{found}{chr(10) if self.others else ' '}Nothing was started."

    def _sentence(self) -> str:
        used = f" (used in line {self.line} of the cell)" if self.line else ""
        return f"{self.name}{used} cannot travel to the worker: {self.path} is {self.why}"


@dataclass(eq=False)
class NoRoomToTravel(CellError):
    needed: int  # bytes
    free: int  # bytes
    largest: str  # the variable that needs most

    def __str__(self) -> str:
        from .units import format_bytes

        return (
            f"The variables of the cell need {format_bytes(self.needed)} to go to the worker and"
            f" {format_bytes(self.free)} of memory are free. The largest is {self.largest}: load it inside the cell,"
            " or delete what is not needed. Nothing was started."
        )


@dataclass(eq=False)
class CellFailedInTrial(CellError):
    traceback: str

    def __str__(self) -> str:
        return f"The cell failed while it was estimated, so there is no estimate.\n{self.traceback}"


class JobError(GpufitError):
    """What was asked of a job cannot be done."""


@dataclass(eq=False)
class NoSuchJob(JobError):
    wanted: str
    known: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.wanted:
            return "You have no jobs yet. Start one with %%gpufit train."
        if not self.known:
            return f"There is no job {self.wanted!r}: you have no jobs yet. Start one with %%gpufit train."
        return f"There is no job {self.wanted!r}.{did_you_mean(self.wanted, self.known)} `gpufit jobs` lists yours."


@dataclass(eq=False)
class NoJobMeant(NoSuchJob):
    """No job was named, and there is none that the verb could mean; `wanted` is what it would do: "runs"."""

    def __str__(self) -> str:
        return f"No job of yours {self.wanted}. `gpufit jobs` lists yours."


@dataclass(eq=False)
class NoSuchHold(JobError):
    wanted: str
    known: tuple[str, ...] = ()

    def __str__(self) -> str:
        return (
            f"No job {self.wanted!r} holds a device or waits for one.{did_you_mean(self.wanted, self.known)}"
            " `gpufit status` lists those that do."
        )


@dataclass(eq=False)
class SeveralMeant(JobError):
    wanted: str
    meant: tuple[str, ...]  # "alice's bert: c.1001.3f…"

    def __str__(self) -> str:
        return f"{self.wanted!r} could be {'; '.join(self.meant)}. Give the id behind the colon."


@dataclass(eq=False)
class JobBusy(JobError):
    name: str
    verb: str

    def __str__(self) -> str:
        return f"{self.name} is still running, so it cannot be {self.verb}. Stop it first: gpufit stop {self.name}"


@dataclass(eq=False)
class NotResumable(JobError):
    name: str
    why: str  # a sentence: why not, and what to do

    def __str__(self) -> str:
        return f"{self.name} cannot be resumed: {self.why}"


@dataclass(eq=False)
class NotNow(JobError):
    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name} goes on as it was: {self.why}"


@dataclass(eq=False)
class HasEnded(JobError):
    name: str
    state: str
    resumable: bool

    def __str__(self) -> str:
        if self.resumable:
            next_step = f"To go on from its checkpoint: gpufit resume {self.name}"
        elif self.state == "done":
            next_step = f"Its output and variables: %gpufit attach {self.name}"
        else:
            next_step = f"Its output: %gpufit attach {self.name}"
        return f"{self.name} is {self.state}: it does not run, and there is nothing to save. {next_step}"


@dataclass(eq=False)
class CannotGoOn(JobError):
    name: str
    why: str

    def __str__(self) -> str:
        return (
            f"{self.name} could not go on from its checkpoint ({self.why})."
            f" The checkpoint is kept: gpufit checkpoint show {self.name}, and to try again: gpufit resume {self.name}"
        )


@dataclass(eq=False)
class NotYours(JobError):
    path: str
    why: str

    def __str__(self) -> str:
        return (
            f"{self.path} is not used, because {self.why}: another user could put code into it."
            " Take that permission away (chmod go-w), or choose another place with GPUFIT_DATA."
        )


@dataclass(eq=False)
class VersionDiffers(JobError):
    name: str
    theirs: str
    ours: str

    def __str__(self) -> str:
        return (
            f"{self.name} runs under jupyter_gpufit {self.theirs} and this process has {self.ours}."
            f" Restart the kernel (or use the environment with {self.theirs}) to speak with it; the job itself goes on."
        )


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

    def __str__(self) -> str:
        found = "\n".join(f"{path}: {why}" for path, why in self.problems[:10])
        more = f"\n(and {len(self.problems) - 10} more)" if len(self.problems) > 10 else ""
        return f"The training cannot be saved, and goes on.\n{found}{more}"


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
        return f"The checkpoint {self.path} is not loaded: {self.why} Resume from another one, or start again."


@dataclass(eq=False)
class NoEstimate(GpufitError):
    why: str

    def __str__(self) -> str:
        return f"The cell could not be estimated: {self.why} Run it with --memory, or without for a whole device."


@dataclass(eq=False)
class StorageError(GpufitError):
    path: str
    why: str
    setting: str  # the setting that chooses another place

    def __str__(self) -> str:
        return (
            f"{self.path} cannot be written ({self.why})."
            f" Free or repair it, or choose another place with {self.setting}."
        )


class DeviceError(GpufitError):
    """No device can serve."""


@dataclass(eq=False)
class NoDevice(DeviceError):
    why: str

    def __str__(self) -> str:
        return (
            f"No GPU is usable here: {self.why}"
            " To train on the CPU, set GPUFIT_DEVICES=cpu:2x4GiB (two slots of 4 GiB)."
        )


@dataclass(eq=False)
class NoSuchDevice(DeviceError):
    wanted: str
    known: tuple[str, ...]

    def __str__(self) -> str:
        return f"There is no device {self.wanted!r}; here are {', '.join(self.known)}."


@dataclass(eq=False)
class NoSuchCard(DeviceError):
    wanted: str
    known: tuple[str, ...]  # those it could mean, or else all

    def __str__(self) -> str:
        return f"No single card is meant by {self.wanted!r}. Write one of: {', '.join(self.known)}."


@dataclass(eq=False)
class DeviceUnreadable(DeviceError):
    device: str
    why: str

    def __str__(self) -> str:
        return f"{self.device} cannot be read: {self.why}"


@dataclass(eq=False)
class NeverFits(DeviceError):
    needed: int  # bytes
    device: str  # the largest there is
    room: int  # bytes a job can have on it when it is idle

    def __str__(self) -> str:
        from .units import format_bytes

        return (
            f"The job asks for {format_bytes(self.needed)} and the largest device here, {self.device}, offers"
            f" {format_bytes(self.room)}. Try a smaller batch, or ask for less with --memory."
        )


@dataclass(eq=False)
class NotOnASlot(DeviceError, RuntimeError):
    """A RuntimeError too, as CUDA's own errors are: code that guards a call with `except RuntimeError` goes on."""

    call: str  # torch.cuda.CUDAGraph
    slot: str
    why: str = "it needs a GPU. Leave it out, or run the cell on a GPU."

    def __str__(self) -> str:
        return f"{self.call} is not available on the CPU slot {self.slot}: {self.why}"
