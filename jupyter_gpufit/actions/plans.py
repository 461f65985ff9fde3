"""What runs were predicted to take, by which plan, and what they took: `gpufit history --plans`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from ..estimate.reckoning.learned import Lesson, all_lessons
from ..estimate.showing.text import duration_of_step
from ..settings import Settings
from ..units import format_bytes, format_duration
from .columns import columns

_MOST = 20  # runs
_HEADS = ("when", "job", "device", "peak, predicted", "measured", "a step, predicted", "measured", "plan")


def as_json(settings: Settings) -> list[dict[str, Any]]:
    """All that is kept, oldest first."""
    return [asdict(lesson) for lesson in all_lessons(settings)]


def as_text(settings: Settings, now: float, width: int = 0) -> str:
    """The last runs, newest last, and how far off the predictions were."""
    return table_of(all_lessons(settings), now, width)


def table_of(lessons: Sequence[Lesson], now: float, width: int = 0) -> str:
    """Pure."""
    if not lessons:
        return "No run that was estimated has ended yet."
    rows = [_row(lesson, now) for lesson in lessons[-_MOST:]]
    return "\n\n".join([columns([_HEADS, *rows], width), _summed(lessons)])


def _row(lesson: Lesson, now: float) -> tuple[str, ...]:
    return (
        f"{format_duration(max(0.0, now - lesson.time))} ago",
        lesson.name or lesson.job,
        "CPU slot" if lesson.kind == "slot" else lesson.card,
        format_bytes(lesson.estimated) if lesson.estimated else "",
        format_bytes(lesson.measured) + (", ran out" if lesson.ran_out else ""),
        _step(lesson.predicted_seconds),
        _step(lesson.step_seconds),
        lesson.plan,
    )


def _step(seconds: float) -> str:
    return duration_of_step(seconds) if seconds else ""


def _summed(lessons: Sequence[Lesson]) -> str:
    whole = [lesson for lesson in lessons if not lesson.ran_out]
    peaks = [abs(lesson.estimated / lesson.measured - 1) for lesson in whole if lesson.estimated and lesson.measured]
    times = [lesson.step_seconds / lesson.predicted_seconds for lesson in whole if _is_timed(lesson)]
    said = [f"half of the peaks were within {median(peaks):.0%} of the estimate".replace("%", " %")] if peaks else []
    said += [f"steps took {median(times):.2g}x what was predicted"] if times else []
    runs = "1 run" if len(lessons) == 1 else f"{len(lessons)} runs"
    return f"Of {runs}: {'; '.join(said)}." if said else f"{runs}."


def _is_timed(lesson: Lesson) -> bool:
    return lesson.predicted_seconds > 0 and lesson.step_seconds > 0
