"""What all errors have in common, and how they offer what was probably meant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import ClassVar


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """A sentence that offers the nearest known words, or else those it is a part of, or nothing."""
    near = get_close_matches(word, known, n=2) or [one for one in known if len(word) > 2 and word in one][:2]
    return f" Did you mean {' or '.join(near)}?" if near else ""


@dataclass(eq=False)
class GpufitError(Exception):
    """The base of all our errors; shown to users as its sentence, without a traceback."""

    exit_code: ClassVar[int] = 2  # of the command line

    def __reduce__(self) -> tuple[type[GpufitError], tuple[object, ...]]:
        # Exception pickles the positional arguments of its construction, which keyword arguments would leave empty.
        return type(self), tuple(getattr(self, field.name) for field in fields(self))


def first_of(group: BaseExceptionGroup[GpufitError]) -> GpufitError:
    """The first error of a task group's; there may be groups in it."""
    error = group.exceptions[0]
    return first_of(error) if isinstance(error, BaseExceptionGroup) else error
