"""What arrives as nothing yet, for its making runs code that may need all the rest: made when that has arrived."""

from __future__ import annotations

from .kinds import parents, simulators


def make_all() -> tuple[str, ...]:
    """Sentences on what is not as it was."""
    parents.begin()
    simulators.begin()
    return simulators.said()


def said_of_returned() -> tuple[str, ...]:
    return *parents.said(), *simulators.said()
