"""The states that a job goes through, and the sets of them that matter; the server hands both to TypeScript."""

from __future__ import annotations

from typing import Literal, get_args

State = Literal[
    "estimating", "queued", "starting", "running", "saving", "moving", "released", "done", "failed", "stopped", "lost"
]
STATES: tuple[State, ...] = get_args(State)
BEFORE: frozenset[State] = frozenset({"estimating", "queued", "starting"})  # nothing of it has run yet
GOING: frozenset[State] = frozenset({"running", "saving", "moving"})  # it holds its device, and its cell runs
ENDED: frozenset[State] = frozenset({"done", "failed", "stopped"})
LEFT: frozenset[State] = ENDED | {"released"}  # its worker said so, and is gone
OVER: frozenset[State] = LEFT | {"lost"}  # nobody trains it


def in_words(state: State) -> str:
    """ "is queued", "has failed", "was stopped" """
    return {"failed": "has failed", "stopped": "was stopped"}.get(state, f"is {state}")
