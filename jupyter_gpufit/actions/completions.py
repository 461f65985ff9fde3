"""What may stand where somebody types, from the same parsers that read it; pure."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from .commands import VERB_PARSERS, VERBS
from .places import Place, places_of


def completions(
    words: Sequence[str], fragment: str, *, place: Place, devices: Sequence[str], jobs: Sequence[str]
) -> list[str]:
    """What may stand where `fragment` is being typed after `words`; each begins with the fragment."""
    return [word for word in _candidates(words, place, devices, jobs) if word.startswith(fragment)]


def _candidates(words: Sequence[str], place: Place, devices: Sequence[str], jobs: Sequence[str]) -> Sequence[str]:
    if not words:
        return [verb for verb in VERBS if place in places_of(verb)]
    if words == ["help"]:
        return VERBS
    parser = _parser_at(words)
    if parser is None:
        return []
    option = parser._option_string_actions.get(words[-1])
    if option is not None and option.nargs is None:  # what is typed is its value
        return devices if words[-1] in ("--gpu", "--to") else list(option.choices or ())
    found = ["show"] if words == ["checkpoint"] else []
    for action in parser._actions:
        if action.help != argparse.SUPPRESS:
            options = [one for one in action.option_strings if one.startswith("--")]
            found += options or (jobs if action.metavar == "JOB" else action.choices or ())
    return [one for one in found if one not in words]


def _parser_at(words: Sequence[str]) -> argparse.ArgumentParser | None:
    """Of the verb that these begin with, or of what it is to do, as in `lab init`."""
    parser: argparse.ArgumentParser | None = VERB_PARSERS.get(words[0])
    for word in words[1:]:
        for action in parser._actions if parser else ():
            if isinstance(action, argparse._SubParsersAction):
                parser = action.choices.get(word, parser)
    return parser
