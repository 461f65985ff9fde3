"""What somebody wrote and nobody can use: a quantity, a setting, an option, a command."""

from __future__ import annotations

from dataclasses import dataclass

from .base import GpufitError


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
