"""What a suspended program consists of, as plain values, and the names that stand in rewritten code."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import CellType
from typing import Any, Literal, NamedTuple, TypeAlias

# One underscore: a name with two would be mangled inside a class. The program's own name ends with two and is not.
PROGRAM = "__gf__"
OURS = "_gf_"
FRAME = "_gf_f"
SAVED = "_gf_l"  # the locals that an entered activation takes back
ARRIVED = "_gf_r"  # the record with which an activation is entered
MAKER = "_gf_make"  # the function around an entered one, whose variables are the entered one's cells
INNER = "_gf_inner"
TEMPORARY = "_gf_t"
ITEM = "_gf_item"  # of what a comprehension goes over that nobody wrote

Kind: TypeAlias = Literal["cell", "function", "generator", "text"]
Path: TypeAlias = frozenset[int]
Spot: TypeAlias = tuple[str, int, int, int]  # what stands there, its line and column, which number of its own


def hidden(name: str) -> bool:
    """Whether a name is of rewritten code, and not the user's."""
    return name == PROGRAM or name.startswith(OURS)


@dataclass(frozen=True)
class Unit:
    """A cell, function or generator that was rewritten: what its numbered places are."""

    uid: str
    kind: Kind
    name: str  # for people: train(), the cell
    filename: str
    paths: dict[int, Path]  # which constructs enclose a place, itself included
    lines: dict[int, int]
    locals: tuple[str, ...] = ()  # but for those in cells
    spots: dict[int, Spot] = field(default_factory=dict)
    depth: int = 0  # of a text that runs: how many do

    @property
    def frame(self) -> str:
        return self.named(FRAME)

    @property
    def temporary(self) -> str:
        """With what its temporaries begin."""
        return self.named(TEMPORARY)

    def named(self, name: str) -> str:
        """What a name of ours is in it: a text may share its variables with who runs it."""
        return f"{OURS}{self.depth}_{name.removeprefix(OURS)}" if self.depth else name


@dataclass
class FrameRecord:
    """One activation at a safe point: where it stands, and all that it holds."""

    uid: str
    pc: int
    locals: dict[str, Any]
    cells: dict[str, CellType]  # shared with the closures that use them
    callee: Any  # whom it is calling; the innermost activation stands at a loop and calls nobody
    its: dict[int, Any]  # the iterators of the loops it is in; of a `while` a list of one: turns begun
    cms: dict[int, Any]  # the context managers that it has entered
    wholes: dict[int, int | None] | None = None  # items of their ranges when they began, where they forget it


@dataclass
class GeneratorRecord:
    """A generator, suspended at a `yield` or (pc None) not yet begun."""

    uid: str
    cells: dict[str, CellType]  # of its own variables and of those around it
    pc: int | None
    locals: dict[str, Any]
    its: dict[int, Any]
    cms: dict[int, Any]
    wholes: dict[int, int | None] | None = None


class Midway(NamedTuple):
    """A generator in use as any process can read it and make it again: its places by where they stand in the text."""

    uid: str
    flags: int  # with which its text was compiled
    place: Spot | None
    locals: dict[str, Any]
    cells: dict[str, CellType]
    its: dict[Spot, Any]
    cms: dict[Spot, Any]
    closes: bool  # something is done where it is closed


class Arrived:
    """What a generator is made with, before there is anything to give it."""

    __slots__ = ("record", "rest")

    def __init__(self) -> None:
        self.record: GeneratorRecord | FrameRecord | None = None  # the latter where it was left computing a value
        self.rest: list[FrameRecord] | None = None  # of those inside it
