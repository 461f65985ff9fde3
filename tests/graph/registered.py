"""A library's class that is told of those made of it, as plug-ins are."""

from __future__ import annotations


class Registered:
    known: dict[str, type] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        Registered.known[cls.__name__] = cls
