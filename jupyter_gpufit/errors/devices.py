"""No device can serve."""

from __future__ import annotations

from dataclasses import dataclass

from ..units import device_words, format_bytes
from .base import GpufitError


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
        return (
            f"No single card is meant by {self.wanted!r}. Write one of: {', '.join(self.known)}; or a size, as in"
            ' --on 12GiB, and perhaps a compute capability: --on "12GiB 7.5".'
        )


@dataclass(eq=False)
class DeviceUnreadable(DeviceError):
    device: str
    why: str

    def __str__(self) -> str:
        return f"{device_words([self.device])} cannot be read: {self.why}"


@dataclass(eq=False)
class NeverFits(DeviceError):
    needed: int  # bytes
    device: str  # the largest there is
    room: int  # bytes a job can have on it when it is idle

    def __str__(self) -> str:
        where = device_words([self.device])
        return (
            f"The job asks for {format_bytes(self.needed)} and the largest device here, {where}, offers"
            f" {format_bytes(self.room)}. Try a smaller batch (of a deployed model: fewer --rows), or ask for less with"
            " --memory."
        )


@dataclass(eq=False)
class HostIsFull(DeviceError):
    needed: int  # bytes of the host's memory
    spare: int  # bytes that are left of it for plans
    allowed: bool = False  # these are all that the lab's policy ever gives to plans

    def __str__(self) -> str:
        if self.allowed:
            return (
                f"The plan keeps {format_bytes(self.needed)} in the host's memory, of which the lab's policy gives all"
                f" plans together {format_bytes(self.spare)} (`host`; gpufit lab policy). Try a smaller model or a"
                " larger device, or ask the administrator. With --fit no the cell runs as it is."
            )
        return (
            f"The plan keeps {format_bytes(self.needed)} more in the host's memory, which has"
            f" {format_bytes(self.spare)} to spare. Try again when other jobs have ended, or try a smaller model."
            " With --fit no the cell runs as it is."
        )


@dataclass(eq=False)
class NotUnderPlan(DeviceError, RuntimeError):
    """What a plan that keeps tensors on the host cannot do; a RuntimeError as torch's own."""

    what: str  # "A tensor of the class DTensor"
    why: str

    def __str__(self) -> str:
        return f"{self.what} cannot be kept on the host: {self.why}. Run the cell with --fit no, on a larger device."


@dataclass(eq=False)
class NotInParts(DeviceError, RuntimeError):
    def __str__(self) -> str:
        return (
            "A thread or a DataLoader worker asked for parameters or gradients that are split over several devices."
            " Only the cell's main thread can read them. Make a copy in the main thread and use that, or run the cell"
            " with --fit no."
        )


@dataclass(eq=False)
class NotTheSameAgain(DeviceError, RuntimeError):
    """What recomputing would get wrong; a RuntimeError as torch's own of something that was changed in place."""

    what: str  # the class of a module

    def __str__(self) -> str:
        return (
            f"{self.what} cannot be recomputed: what it was given, or its parameters, were changed in place between its"
            " forward and its backward. Run the cell with --fit spill, or --fit no."
        )


@dataclass(eq=False)
class NotOnASlot(DeviceError, RuntimeError):
    """A RuntimeError too, as CUDA's own errors are: code that guards a call with `except RuntimeError` goes on."""

    call: str  # torch.cuda.CUDAGraph
    slot: str
    why: str = "it needs a GPU. Leave it out, or run the cell on a GPU."

    def __str__(self) -> str:
        # Without a slot it is a notebook's own process: notebook/cuda.
        here = f"on the CPU slot {self.slot}" if self.slot else "in the notebook's own process (try %%gpufit train)"
        return f"{self.call} is not available {here}: {self.why}"


@dataclass(eq=False)
class CannotPart(DeviceError, RuntimeError):
    """A model that several devices cannot train together: what it computes of a part of a batch is something else."""

    model: str
    why: str

    def __str__(self) -> str:
        return (
            f"{self.model} cannot be trained on several devices together: {self.why}. Train it on one device, or have"
            " the cell do outside of the model what goes over the whole batch."
        )

    def whole_on(self, devices: int) -> str:
        """Where each of them computes it of whole batches."""
        return f"{self.model} is computed whole on each of the {devices} devices, as on one: {self.why}."


@dataclass(eq=False)
class RanksDiffer(DeviceError, RuntimeError):
    """Devices that train one cell together have come to different values."""

    what: str
    rank: int

    def __str__(self) -> str:
        return (
            f"The devices that train this cell together do not agree: device {self.rank + 1} of the job and the first"
            f" one differ in {self.what}. Seed what the cell draws, and take nothing from a clock or from the order"
            " of a set."
        )
