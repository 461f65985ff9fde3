"""What was asked of a job cannot be done, or its files cannot be trusted."""

from __future__ import annotations

from dataclasses import dataclass

from .base import GpufitError, did_you_mean


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
class IsACommand(NoSuchJob):
    """`wanted` is a command of `gpufit run`, which nobody can save."""

    def __str__(self) -> str:
        return (
            f"{self.wanted} is a command of `gpufit run`: its output is where it was started, and it cannot be saved,"
            f" moved or resumed. To end it: gpufit stop {self.wanted}"
        )


@dataclass(eq=False)
class NotYourJob(JobError):
    name: str
    user: str

    def __str__(self) -> str:
        return (
            f"{self.name} is {self.user}'s, and only {self.user} can do this."
            f" To ask {self.user} to release it: gpufit release '{self.user}/{self.name}'"
        )


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
class LeavesAlready(JobError):
    name: str

    def __str__(self) -> str:
        return f"{self.name} is already leaving its device. Ask again when it has left."


@dataclass(eq=False)
class EndedFirst(JobError):
    name: str
    state: str  # in words: "has failed"

    def __str__(self) -> str:
        return f"{self.name} ended before it could be saved: it {self.state}. Its output: %gpufit attach {self.name}"


@dataclass(eq=False)
class HasEnded(JobError):
    name: str
    state: str  # in words: "was stopped"
    resumable: bool

    def __str__(self) -> str:
        if self.resumable:
            next_step = f"To go on from its checkpoint: gpufit resume {self.name}"
        elif self.state == "is done":
            next_step = f"Its output, and its variables if no notebook has them: %gpufit attach {self.name}"
        else:
            next_step = f"Its output: %gpufit attach {self.name}"
        return f"{self.name} {self.state}, so there is nothing to save. {next_step}"


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
            f"{self.name} runs under jupyter_gpufit {self.theirs}, and what asks it has {self.ours}: they do"
            " not understand each other. The job itself goes on, and can be stopped from here. For the rest, use the"
            " environment in which it was started, or install the same version here and restart the kernel."
        )


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


@dataclass(eq=False)
class CannotNow(JobError):
    name: str
    done: str  # "released"
    why: str

    def __str__(self) -> str:
        return f"{self.name} cannot be {self.done} now. {self.why}"


@dataclass(eq=False)
class TooManyActions(JobError):
    count: int

    def __str__(self) -> str:
        return f"{self.count} actions are still under way. Wait until one of them has ended."
