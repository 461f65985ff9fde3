"""Where a verb belongs: on top of a cell, on a line, in a terminal; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ..errors import BadOption

Place = Literal["cell", "line", "terminal"]
_PLACES: Mapping[str, Mapping[Place, str]] = {  # of verbs that do not go on a line and in a terminal alike
    "train": {"cell": "on top of a notebook cell: %%gpufit train"},
    "estimate": {"cell": "on top of a notebook cell: %%gpufit estimate", "terminal": "in a terminal"},
    "run": {"terminal": "into a terminal: gpufit run -- python train.py"},
    "lab": {"terminal": "into a terminal: gpufit lab check"},
    "serve": {"terminal": "into a terminal: gpufit serve"},
    "completion": {"terminal": 'into a terminal: eval "$(gpufit completion bash)"'},
    "kernel": {"line": "into a notebook: %gpufit kernel"},
    "runs": {"line": "into a notebook: runs = %gpufit runs"},
}


def check_place(verb: str, place: Place) -> None:
    """Refuse a verb where it does not belong, and say where it does."""
    if place not in (places := places_of(verb)):
        raise BadOption(f"{verb} goes {next(iter(places.values()))}")


def places_of(verb: str) -> Mapping[Place, str]:
    """Where it goes, each place as words that stand behind "goes"."""
    verb = verb.split()[0]
    return _PLACES.get(verb, {"line": f"on a line of its own: %gpufit {verb}", "terminal": "in a terminal"})
