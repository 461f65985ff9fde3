"""What can be asked of a job: each verb in its words, and the states in which it may be; for all fronts; pure.

The worker asks the same again: between a front's look and its question the job may have gone on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from .record import Record
from .state import BEFORE, GOING, OVER

Verb = Literal["checkpoint", "release", "move", "resume", "stop"]
VERBS: tuple[Verb, ...] = get_args(Verb)


@dataclass(frozen=True)
class VerbWords:
    """One verb, as people read it."""

    label: str  # on a button
    command: str  # in a palette
    tooltip: str
    done: str  # of the job, afterwards


WORDS: dict[Verb, VerbWords] = {
    "checkpoint": VerbWords("Checkpoint", "Checkpoint a Job", "Save it at its next safe point; it goes on.", "saved"),
    "release": VerbWords("Release", "Release the Device of a Job", "Save it, and let it leave its device.", "released"),
    "move": VerbWords("Move", "Move a Job to Another Device", "Let it go on on the best other device.", "moved"),
    "resume": VerbWords("Resume", "Resume a Job", "Let it go on from its newest checkpoint.", "resumed"),
    "stop": VerbWords("Stop", "Stop a Job", "Interrupt it; what was not saved is lost.", "stopped"),
}


def why_not(verb: Verb, record: Record) -> str:
    """Why this cannot be done with a job of this record, as far as that tells; half a sentence; empty: it can."""
    match verb:
        case "resume":
            return _why_not_resumed(record)
        case "stop":
            return f"it is {record.state}." if record.state in OVER else ""
    return _why_not_saved(verb, record)


def _why_not_saved(verb: Verb, record: Record) -> str:
    if record.state in GOING and not (verb != "checkpoint" and record.state == "moving"):
        return ""
    if verb == "release" and record.checkpoint is not None and record.state in BEFORE:
        return ""
    if record.state in OVER:
        return f"it does not run: it is {record.state}."
    if record.state in BEFORE:
        return f"it is {record.state}, so there is nothing to save yet (gpufit stop ends it)."
    return f"it is {record.state}."


def _why_not_resumed(record: Record) -> str:
    if record.state == "done":
        return "it has ended well."
    if record.state not in OVER:
        return f"it is {record.state}."
    return "" if record.checkpoint is not None else f"it is {record.state}, and left no checkpoint."
