"""What can be asked of a job: each verb in its words, and the table of when; for all fronts and the worker; pure.

A front asks before it offers a verb, and the worker asks the same again: between the two the job may have gone on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from .job import JobKind
from .state import BEFORE, OVER, State, in_words

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
    "move": VerbWords("Move", "Move a Job to Another Device", "Let it continue on the best other device.", "moved"),
    "resume": VerbWords("Resume", "Resume a Job", "Let it go on from its newest checkpoint.", "resumed"),
    "stop": VerbWords("Stop", "Stop a Job", "Interrupt it; what was not saved is lost.", "stopped"),
}

May = Literal[
    "yes",
    "saved",  # where there is a checkpoint
    "later",  # in another state of this run: its button is there, and greyed
    "no",  # it has no button
]


def _rows(*may: May) -> Mapping[Verb, May]:
    return dict(zip(VERBS, may, strict=True))


MAY: Mapping[State, Mapping[Verb, May]] = {
    # fmt: off
    #                    checkpoint release  move     resume   stop
    "estimating": _rows("later", "saved", "later", "no", "yes"),
    "queued": _rows("later", "saved", "later", "no", "yes"),
    "starting": _rows("later", "saved", "later", "no", "yes"),
    "running": _rows("yes", "yes", "yes", "no", "yes"),
    "saving": _rows("yes", "yes", "yes", "no", "yes"),
    "moving": _rows("yes", "later", "later", "no", "yes"),
    "released": _rows("no", "no", "no", "saved", "no"),
    "done": _rows("no", "no", "no", "no", "no"),
    "failed": _rows("no", "no", "no", "saved", "no"),
    "stopped": _rows("no", "no", "no", "saved", "no"),
    "lost": _rows("no", "no", "no", "saved", "no"),
    # fmt: on
}


def may(verb: Verb, state: State, *, saved: bool) -> bool:
    """Whether it can be done with a job in this state, with a checkpoint or without, as far as that tells."""
    return MAY[state][verb] == "yes" or (saved and MAY[state][verb] == "saved")


def why_not(verb: Verb, state: State, *, saved: bool, kind: JobKind = "training") -> str:
    """Why it cannot: half a sentence; empty: it can."""
    if kind == "model" and verb == "checkpoint":
        return "it is a deployed model: its file is all there is to save."
    if may(verb, state, saved=saved):
        return ""
    if verb == "resume" and state == "done":
        return "it has ended well."
    if verb == "resume" and state in OVER:
        return f"it {in_words(state)}, and left no checkpoint."
    if verb in ("checkpoint", "release", "move") and state in OVER:
        return f"it does not run: it {in_words(state)}."
    if kind == "model" and state in BEFORE:
        return f"it is {state}, so it has no device to leave yet (gpufit stop ends it)."
    if verb in ("checkpoint", "release", "move") and state in BEFORE:
        return f"it is {state}, so there is nothing to save yet (gpufit stop ends it)."
    return f"it {in_words(state)}."
