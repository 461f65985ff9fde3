"""What a worker writes into its journal and what is said over its control socket; pure.

Both are lines of JSON. A reader ignores unknown keys and shows an unknown kind of event as nothing, so that an older
front can follow a newer worker; a request with another PROTOCOL is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from ..system.foreign import known, parsed_record
from .state import STATES, State


@dataclass(frozen=True)
class Text:
    """Something written to stdout or stderr."""

    kind: ClassVar = "text"
    name: Literal["stdout", "stderr"]
    text: str


@dataclass(frozen=True)
class Display:
    """A rich display, or the update of one that has a display_id in `transient`."""

    kind: ClassVar = "display"
    data: dict[str, Any]
    metadata: dict[str, Any] = field(default_factory=dict)
    transient: dict[str, Any] = field(default_factory=dict)
    update: bool = False


@dataclass(frozen=True)
class Result:
    """The display of the cell's last expression."""

    kind: ClassVar = "result"
    data: dict[str, Any]
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class WidgetMessage:
    """What a widget of the cell's says to the browser: a message of its comm."""

    kind: ClassVar = "widget"
    comm: str  # its id, which is the widget's model id
    what: str  # "open", "msg", "close"; "again": a resume brought it back; "heard": as a browser said it
    data: dict[str, Any]
    buffers: tuple[str, ...] = ()  # its bytes, in base64


@dataclass(frozen=True)
class Clear:
    """clear_output()."""

    kind: ClassVar = "clear"
    wait: bool = False


@dataclass(frozen=True)
class Failure:
    """An exception left the cell."""

    kind: ClassVar = "failure"
    ename: str
    evalue: str
    traceback: tuple[str, ...]


@dataclass(frozen=True)
class Note:
    """Our own words to the user, apart from what the cell writes."""

    kind: ClassVar = "note"
    text: str
    once: bool = False  # it holds for every job on this machine, whose user need not be told again


@dataclass(frozen=True)
class ProgressMark:
    """How far the cell is, and what it takes: at most one a second."""

    kind: ClassVar = "progress"
    step: int
    used: int  # bytes on the device now
    peak: int  # bytes on the device at most so far
    pace: str = ""  # "2.1 steps/s, MFU 41 %"
    host: int = 0  # bytes of the host's memory that its plan has taken


@dataclass(frozen=True)
class DeviceMark:
    """What the driver says of the job's device: at most one every ten seconds, and none of a slot."""

    kind: ClassVar = "device"
    busy: int | None  # percent of the last moments in which it computed
    power: float | None  # watts


@dataclass(frozen=True)
class Lap:
    """The outermost of the cell's loops, in which others run, has come to its next item: an epoch, say."""

    kind: ClassVar = "lap"
    step: int  # at which this was seen, up to a second later
    number: int  # from 1 on
    total: int | None = None


@dataclass(frozen=True)
class Metrics:
    """The loop's own numbers: a point of their curves, of which a long training has a few thousand."""

    kind: ClassVar = "metrics"
    step: int
    values: dict[str, float | None]  # by the variable's name; null: not a finite number


@dataclass(frozen=True)
class StateChange:
    """The job went on to another state."""

    kind: ClassVar = "state"
    state: State
    reason: str = ""
    device: str = ""
    epoch: int = 0


WAITING = "waiting"  # so begins the reason of a state "saving" or "moving" that finds no safe point
ENDED_FIRST = "the cell ended first, without another safe point."  # why a checkpoint came to nothing
Why = Literal["asked", "automatic", "release", "move", "turn"]  # what a checkpoint was made for


def step_words(step: int, exact: bool) -> str:
    """Which step a checkpoint is of, in words that say so where a resume from it is not to the bit."""
    return f"step {step:,}" if exact else f"step {step:,} (not exact to the bit)"


@dataclass(frozen=True)
class Saved:
    """A checkpoint is durable: it would survive a power cut from here on."""

    kind: ClassVar = "saved"
    number: int  # of the wish, of this worker's; the answer to `checkpoint`, `release` and `move` names it
    step: int
    where: str  # "line 12 of the cell, in train()"
    name: str  # of its directory
    bytes: int
    pause: float  # seconds for which the training stood still
    seconds: float  # from the safe point until it was durable
    why: Why = "asked"
    exact: bool = True  # goes on to the bit; else by a library's own resume


@dataclass(frozen=True)
class CouldNotSave:
    """A checkpoint that was wanted and could not be made; the training goes on."""

    kind: ClassVar = "not_saved"
    number: int
    reason: str  # a sentence
    why: Why = "asked"


@dataclass(frozen=True)
class Gap:
    """Entries that a reader asked for and that are gone: the journal is bounded, or the disk was full."""

    kind: ClassVar = "gap"
    missed: int
    why: str


Event = (
    Text
    | Display
    | Result
    | WidgetMessage
    | Clear
    | Failure
    | Note
    | ProgressMark
    | DeviceMark
    | Lap
    | Metrics
    | StateChange
    | Saved
    | CouldNotSave
    | Gap
)
_KINDS: dict[str, type[Any]] = {
    cls.kind: cls
    for cls in (
        Text,
        Display,
        Result,
        WidgetMessage,
        Clear,
        Failure,
        Note,
        ProgressMark,
        DeviceMark,
        Lap,
        Metrics,
        StateChange,
        Saved,
        CouldNotSave,
        Gap,
    )
}


UNWRITABLE = "(An output that is nested too deeply, or in a circle, to be shown.)"
_DEEPEST = 600  # levels of an output: readers, with much on their stacks, come to some hundred more


@dataclass(frozen=True)
class Entry:
    """One line of the journal."""

    seq: int
    time: float  # seconds since 1970
    event: Event


def encode_entry(entry: Entry) -> bytes:
    try:
        return _line(entry)
    except (RecursionError, ValueError, TypeError):  # of the user's objects: it must cost no other output of theirs
        return _line(replace(entry, event=_as_text(entry.event)))


def _line(entry: Entry) -> bytes:
    # Not asdict, which copies what is inside, and comes only half as deep.
    record = {"seq": entry.seq, "time": round(entry.time, 3), "kind": entry.event.kind, **vars(entry.event)}
    # surrogates (a lone half of a pair in the user's text) have no UTF-8 form; as \\u escapes they survive.
    text = json.dumps(record, separators=(",", ":"), default=str)
    if text.count("{") + text.count("[") > _DEEPEST and _is_deep(record):
        raise ValueError("nobody could read it")
    return text.encode() + b"\n"


def _is_deep(record: object) -> bool:
    level = [record]
    for _ in range(_DEEPEST):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return False
    return True


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def _as_text(event: Event) -> Event:
    """What is left of an output that no line can hold."""
    if not isinstance(event, Display | Result):
        return Note(UNWRITABLE)
    text = event.data.get("text/plain")
    return replace(event, data={"text/plain": text if isinstance(text, str) else UNWRITABLE}, metadata={})


def decode_entry(line: bytes) -> Entry | None:
    """The entry of a line, or None for a kind of event that a later version added."""
    record = parsed_record(line)
    cls = _KINDS.get(str(record["kind"]))
    if cls is None:
        return None
    found = known(cls, record)
    if cls is Failure:
        found["traceback"] = tuple(map(str, found["traceback"]))
    if cls is WidgetMessage:
        found["buffers"] = tuple(map(str, found.get("buffers", ())))
    if cls is StateChange and found["state"] not in STATES:
        return None
    return Entry(event=cls(**found), **known(Entry, {"seq": record["seq"], "time": record["time"]}))
