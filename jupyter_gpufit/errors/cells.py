"""The cell cannot run as it stands, or cannot be estimated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .base import GpufitError, did_you_mean


class CellError(GpufitError):
    """The cell cannot run as it stands; nothing was started."""


@dataclass(eq=False)
class NoTorch(CellError):
    """The kernel's environment cannot train; the package installs without torch, for servers and hubs."""

    pip: str  # the command that installs into this environment
    found: str = ""  # the version that is too old

    def __str__(self) -> str:
        what = f"has torch {self.found}, and a training needs 2.6 or later" if self.found else "has no torch"
        return (
            f"This notebook's environment {what}. In a terminal: {self.pip} 'jupyter_gpufit[torch]'; then restart the"
            " kernel. (For a machine without a GPU: https://pytorch.org/get-started/locally has a smaller build.)"
        )


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
class MagicInCell(CellError):
    line: int

    def __str__(self) -> str:
        return (
            f"%gpufit (line {self.line} of the cell) belongs in a cell of its own: this one runs in a worker, which is"
            " not your notebook. Inside it, `!gpufit status` and the like do. Nothing was started."
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
        from ..units import format_bytes

        return (
            f"The variables of the cell need {format_bytes(self.needed)} to go to the worker and"
            f" {format_bytes(self.free)} of memory are free. The largest is {self.largest}: load it inside the cell,"
            " or delete what is not needed. Nothing was started."
        )


class GraphStayed(CellError):
    """A gradient was to flow on into what an earlier cell computed."""

    def __str__(self) -> str:
        return (
            "A backward came to a tensor that an earlier cell computed, and its autograd graph stayed where that ran."
            " Compute it in the cell that calls backward(), or detach it first, with .detach()."
        )


@dataclass(eq=False)
class CellFailedInTrial(CellError):
    traceback: str
    values: Mapping[str, int] = field(default_factory=dict)  # that it was tried with

    def __str__(self) -> str:
        tried = ", ".join(f"{name}={value}" for name, value in self.values.items())
        said = f" with {tried}, so there is none of that." if tried else ", so there is no estimate."
        return f"The cell failed while it was estimated{said}\n{self.traceback}"


@dataclass(eq=False)
class NoEstimate(GpufitError):
    why: str

    def __str__(self) -> str:
        return (
            f"The cell could not be estimated: {self.why} Run it with --memory 12GiB, say. Without --memory it claims a"
            " whole device."
        )


class CellFailed(CellError):
    """The cell's own exception, as the worker showed it; IPython prints its traceback in place of ours."""

    came: Exception | None = None  # the cell's own

    def __init__(self, ename: str, evalue: str, traceback: Sequence[str]) -> None:
        Exception.__init__(self, evalue)
        self.ename, self.evalue, self.traceback = ename, evalue, traceback

    def __str__(self) -> str:
        return self.evalue

    def __reduce__(self) -> Any:
        return cell_failure, (self.ename, self.evalue, self.traceback)

    def _render_traceback_(self) -> list[str]:
        return list(self.traceback)


def cell_failure(ename: str, evalue: str, traceback: Sequence[str]) -> CellFailed:
    """One whose type has the name of the user's exception."""
    kind: type[CellFailed] = type(ename, (CellFailed,), {})
    return kind(ename, evalue, traceback)
