"""What a worker sends back, in memory or in a directory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..memory import GraphMemory
from ..refusals import INSIDE
from ..wire import split

NAMED = 4  # things in one sentence


@dataclass(frozen=True)
class LeftBehind:
    """Something the worker could not send."""

    name: str  # the variable
    path: str  # where in it
    why: str


def what_stayed(left: Iterable[LeftBehind]) -> list[str]:
    """A sentence for each reason, and not for each thing: a cell with a dozen widgets has one."""
    paths: dict[str, list[str]] = {}
    for one in left:
        why, _, _ = one.why.partition(f" {INSIDE}")
        paths.setdefault(why.rstrip("."), []).append(one.path)
    return [f"{_listed(found)} stayed in the worker: {_is(found)} {why}." for why, found in paths.items()]


def _is(found: Sequence[str]) -> str:
    return "it is" if len(found) == 1 else "each is"


def _listed(found: Sequence[str]) -> str:
    """ "a", "a and b", "a, b, c and 9 more"."""
    *first, last = found if len(found) <= NAMED else [*found[: NAMED - 1], f"{len(found) - NAMED + 1} more"]
    return f"{', '.join(first)} and {last}" if first else last


@dataclass(frozen=True)
class Reply:
    """A worker's answer. With the input beside it, a kernel that never saw the objects can open it, too."""

    graph: bytes
    memory: GraphMemory
    input_graph: bytes | None = None
    input_memory: GraphMemory | None = None  # the input's bytes as the worker left them

    @property
    def left_behind(self) -> tuple[LeftBehind, ...]:
        return tuple(LeftBehind(*found) for found in split(self.graph)[0]["left_behind"])

    def save(self, directory: Path) -> None:
        """Write the reply as four files; the caller makes the directory, and makes it visible when all is written."""
        assert self.input_graph is not None and self.input_memory is not None
        (directory / "reply.graph").write_bytes(self.graph)
        (directory / "input.graph").write_bytes(self.input_graph)
        self.memory.save(directory / "reply.memory")
        self.input_memory.save(directory / "input.memory")

    @classmethod
    def open(cls, directory: Path) -> Reply:
        """Read a saved reply. Opening one runs code from it: the caller checks first that nobody else wrote it."""
        return cls(
            (directory / "reply.graph").read_bytes(),
            GraphMemory.open(directory / "reply.memory"),
            (directory / "input.graph").read_bytes(),
            GraphMemory.open(directory / "input.memory"),
        )
