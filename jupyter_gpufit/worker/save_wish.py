"""What is asked for of a running job and not yet taken: to be saved, and perhaps to leave its device by that."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from ..jobs.events import Why
from ..train import Moved, Released, Requeued

FIRST_RETRY = 0.02  # seconds after a safe point that was none; then twice as long

Leave: TypeAlias = Released | Moved | Requeued


@dataclass
class SaveWish:
    """What was asked for and is not yet taken."""

    why: Why
    number: int
    leave: Callable[[int], Leave] | None = None  # with which outcome the job leaves, given its step
    give_up: Callable[[], None] = lambda: None  # what a leaving that fails gives back
    own: bool = False  # the job itself wants it: to go on on other devices
    since: float = field(default_factory=time.monotonic)
    deferred: str = ""  # why the last safe point was none
    refused: float | None = None  # when one first was in a library's function that holds what cannot be saved
    refusals: int = 0  # in such functions
    retry: float = FIRST_RETRY
    go_on: threading.Event = field(default_factory=threading.Event)  # set where a leaving failed

    def gives_way(self, why: Why) -> bool:
        """To who wants the job to leave in another way: its user, or those whose turn it is."""
        return (why == "release" and self.why == "turn") or (why in ("release", "turn") and self.own)

    def become(self, why: Why, leave: Callable[[int], Leave], give_up: Callable[[], None]) -> None:
        """What the job itself held for it is given back; whoever wanted it to leave hears if it cannot be saved."""
        before = self.give_up
        if self.own:
            before()

        def both() -> None:
            before()
            give_up()

        self.why, self.leave, self.give_up, self.own = why, leave, give_up if self.own else both, False
