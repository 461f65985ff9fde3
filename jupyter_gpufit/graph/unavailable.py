"""What stands in the kernel where the worker had an object that cannot leave it."""

from __future__ import annotations

from typing import NoReturn


class Unavailable:
    """Says what it stands for when it is looked at, and why not when it is used."""

    def __init__(self, thing: str) -> None:
        self.thing = thing

    def __repr__(self) -> str:
        return f"<{self.thing}, which stayed in the worker>"

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"This is {self.thing} that stayed in the worker, so it has no {name!r} here.")


def unavailable(thing: str) -> Unavailable:
    return Unavailable(thing)
