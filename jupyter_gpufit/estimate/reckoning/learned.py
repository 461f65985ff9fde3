"""What cells really took: a line for each run in learned.jsonl, by which the next estimate of the same cell is mended.

The same cell is the same text with inputs of the same shapes. Lines of old cells are dropped when the file gets long.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from ...devices.device import Kind
from ...fit.plan import AS_IT_IS
from ...settings import Settings
from ...system.directories import data_dir
from ...system.files import write_whole
from ...system.foreign import known, parsed_record
from ...units import format_bytes
from .report import Estimate

FORMAT = 1
MOST_LINES = 2000
# Between two runs of one cell: allocation follows timing and data; a slot's peak is only looked at now and then.
MARGINS: Mapping[Kind, float] = {"gpu": 0.05, "mig": 0.05, "slot": 0.25}
_PLAIN = (bool, int, float, str, type(None))
_COLLECTIONS = (list, tuple, dict)
_WITHOUT_SHAPE = (type, ModuleType, FunctionType)
PLAUSIBLE = 0.3, 5.0  # of measured to estimated; beyond, the cell did something else


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """One run."""

    key: str
    time: float  # seconds since 1970
    kind: Kind
    card: str
    job: str  # its id
    measured: int  # bytes the process had on the device at most, context included
    estimated: int = 0  # bytes that were expected; 0: there was no estimate
    allocated: int | None = None  # bytes, torch.cuda.max_memory_allocated()
    reserved: int | None = None  # bytes, torch.cuda.max_memory_reserved()
    nvml: int | None = None  # bytes, as the driver saw at the end
    ran_out: bool = False  # it ended by running out of the memory that it had
    plan: str = AS_IT_IS  # under which it ran, in words
    had: int = 0  # bytes of the device; 0: not noted
    name: str = ""  # of the job
    steps: int = 0  # that it made
    step_seconds: float = 0.0  # that one took; 0: not noted
    predicted_seconds: float = 0.0
    host: int = 0  # bytes of the host's memory that its plan took
    devices: int = 1


def signature(source: str, values: Mapping[str, object]) -> str:
    """The key of a cell with these inputs."""
    lines = [line.strip() for line in source.splitlines() if line.strip() and not line.strip().startswith("#")]
    # What the cell binds itself is there from the second run on, and says nothing of what it was given.
    given = {name for name in values if not name.startswith("_")} - _bound(source)
    shapes = [f"{name}: {_shape_of(values[name])}" for name in sorted(given)]
    return hashlib.sha256("\n".join([*lines, *shapes]).encode()).hexdigest()[:24]


def _bound(source: str) -> set[str]:
    nodes = ast.walk(ast.parse(source))
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _shape_of(value: Any) -> str:
    """What of a value decides about memory; of one that refuses to be looked at, its kind."""
    try:
        return _shape(value) or type(value).__name__
    except Exception:  # any object may be among the variables, and its attributes may be code
        return type(value).__name__


def _shape(value: Any) -> str:
    kind = type(value)
    if kind in _PLAIN:
        return repr(value)[:200]
    if issubclass(kind, _COLLECTIONS):
        return f"{kind.__name__} {len(value)}"
    if issubclass(kind, _WITHOUT_SHAPE):
        return ""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):  # numpy, the module, has a function of this name
        return f"{tuple(shape)} {getattr(value, 'dtype', '')}"
    if callable(getattr(value, "named_parameters", None)):
        return ", ".join(f"{tuple(p.shape)} {p.dtype} {p.requires_grad}" for p in value.parameters())
    size = getattr(value, "batch_size", None)
    return f"{kind.__name__} {size}" if type(size) in _PLAIN and size is not None else ""  # a DataLoader


def learn(settings: Settings, lesson: Lesson) -> None:
    """Keep a run; a disk that is full loses it, which only the next estimate could notice."""
    path = learned_file(settings)
    lines = [*_lines(path)[-MOST_LINES + 1 :], json.dumps({"format": FORMAT, **asdict(lesson)})]
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(path, "\n".join(lines) + "\n")


def learned_file(settings: Settings) -> Path:
    return data_dir(settings) / "learned.jsonl"


def lessons(settings: Settings, key: str, plan: str = AS_IT_IS) -> list[Lesson]:
    """The runs of this cell under a plan, oldest first; a line that cannot be read is passed over."""
    return [lesson for lesson in _of(settings, key) if lesson.plan == plan]


def ran_out_under(settings: Settings, key: str, kind: Kind, room: int) -> tuple[str, ...]:
    """The plans under which this cell ran out of so much memory, or of more, in words."""
    found = [lesson for lesson in _of(settings, key) if lesson.kind == kind]
    last = {lesson.plan: lesson for lesson in found}.values()
    return tuple(lesson.plan for lesson in last if lesson.ran_out and lesson.had >= room)


def lessons_of(settings: Settings, key: str, kind: Kind) -> list[Lesson]:
    """The runs of this cell under whatever plan on devices of a kind, oldest first."""
    return [lesson for lesson in _of(settings, key) if lesson.kind == kind]


def all_lessons(settings: Settings) -> list[Lesson]:
    """All runs that are known, oldest first."""
    return [lesson for line in _lines(learned_file(settings)) if (lesson := _lesson(line)) is not None]


def _of(settings: Settings, key: str) -> list[Lesson]:
    """On one device: what each of several took tells nothing of it."""
    found = [_lesson(line) for line in _lines(learned_file(settings)) if key and key in line]
    return [lesson for lesson in found if lesson is not None and lesson.key == key and lesson.devices == 1]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return []


def _lesson(line: str) -> Lesson | None:
    try:
        record = parsed_record(line)
        return Lesson(**known(Lesson, record)) if record["format"] <= FORMAT else None
    except (ValueError, KeyError, TypeError):
        return None


def corrected(estimate: Estimate, kind: Kind, known: Iterable[Lesson]) -> Estimate:
    """The estimate in the light of the last run on the same card, or else on a card of the same kind; pure."""
    of_kind = [lesson for lesson in known if lesson.kind == kind]
    same = of_kind if kind == "slot" else [lesson for lesson in of_kind if lesson.card == estimate.card]
    if not of_kind:
        return estimate
    last = (same or of_kind)[-1]
    if last.ran_out:
        return _too_little(estimate, last)
    same = [lesson for lesson in same if not lesson.ran_out]
    if kind == "slot" and estimate.how != "trace":
        return replace(estimate, measured=last.measured)  # a small claim would bound what was never looked at
    if same:
        return _as_measured(estimate, max(lesson.measured for lesson in same[-3:]), MARGINS[kind])
    if not last.estimated or estimate.need is None or estimate.high is None:
        return estimate
    factor = last.measured / last.estimated
    if not PLAUSIBLE[0] < factor < PLAUSIBLE[1]:
        return estimate
    reason = f"the last run of this cell, on {last.card}, took {factor:.2f} times what was expected"
    return replace(
        estimate,
        need=round(estimate.need * max(factor, 1.0)),
        high=round(estimate.high * max(factor, 1.0)),
        low=round(estimate.low * min(factor, 1.0)),
        measured=last.measured,
        reasons=(reason, *estimate.reasons),
    )


def _too_little(estimate: Estimate, last: Lesson) -> Estimate:
    """Nobody knows how much more it would have taken: no number is sure until a run has come to its end."""
    reason = f"the last run of this cell ran out of memory with {format_bytes(last.measured)}"
    low = max(estimate.low, last.measured)
    return replace(
        estimate,
        low=low,
        need=max(estimate.need, low) if estimate.need is not None else None,
        high=max(estimate.high, low) if estimate.high is not None else None,
        confidence="low",
        measured=last.measured,
        reasons=(reason, *estimate.reasons),
    )


def _as_measured(estimate: Estimate, measured: int, margin: float) -> Estimate:
    """What the same cell took on the same card is better than any estimate."""
    reason = f"the last runs of this cell on this card took at most {format_bytes(measured)}"
    need = round(measured * (1 + margin))
    return replace(
        estimate,
        need=need,
        low=min(measured, estimate.low or measured),
        high=max(need, measured),
        confidence="high",
        measured=measured,
        reasons=(reason, *estimate.reasons),
    )
