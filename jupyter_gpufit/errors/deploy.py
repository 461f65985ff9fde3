"""A model cannot be deployed, or does not answer."""

from __future__ import annotations

from dataclasses import dataclass

from .base import GpufitError


class DeployError(GpufitError):
    """A model cannot be deployed, or a call of one failed."""


@dataclass(eq=False)
class ModelRefused(DeployError):
    path: str
    why: str  # a sentence or two: what is wrong, and what to do

    def __str__(self) -> str:
        return f"{self.path} cannot be deployed: {self.why}"


@dataclass(eq=False)
class NoRuntime(DeployError):
    why: str  # with the command that mends it

    def __str__(self) -> str:
        return self.why


@dataclass(eq=False)
class ExportFailed(DeployError):
    name: str  # of the module
    why: str

    def __str__(self) -> str:
        return f"{self.name} cannot be made an ONNX model: {self.why}"


@dataclass(eq=False)
class BadCall(DeployError):
    why: str

    def __str__(self) -> str:
        return self.why


@dataclass(eq=False)
class QueueFull(DeployError):
    name: str
    waiting: int  # requests
    seconds: float  # after which there is room

    def __str__(self) -> str:
        return (
            f"{self.name} has {self.waiting} requests waiting, and takes no more now. Call it again in"
            f" {self.seconds:.2g} s."
        )


@dataclass(eq=False)
class TooLate(DeployError):
    name: str
    deadline: float  # seconds that it had
    seconds: float  # after which it could be answered
    taken: bool = False  # it waited in vain: the model has become slower than it was

    def __str__(self) -> str:
        why = "has become slower, and could not answer" if self.taken else "cannot answer"
        return (
            f"{self.name} {why} within {self.deadline * 1e3:.3g} ms; it could in {self.seconds * 1e3:.3g} ms. Call it"
            " again later, or deploy it with a longer --deadline."
        )


@dataclass(eq=False)
class CallFailed(DeployError):
    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name} could not answer: {self.why}"


@dataclass(eq=False)
class NotServing(DeployError):
    name: str
    why: str  # half a sentence: what it is, and what to do

    def __str__(self) -> str:
        return f"{self.name} does not answer: {self.why}"


@dataclass(eq=False)
class CouldNotDeploy(DeployError):
    name: str
    why: str  # a sentence

    def __str__(self) -> str:
        return f"{self.name} does not run: {self.why}"
