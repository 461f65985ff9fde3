"""Whether something can travel, tried out beside the stream in which it would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..graph.kind import TookTooLong

if TYPE_CHECKING:
    from ..graph.stream import GraphPickler


class Trial:
    """Tries out what can be written, beside the stream: a stream cannot take back what is in it."""

    def __init__(self, pickler: GraphPickler) -> None:
        self._pickler = pickler
        self.until: float | None = None  # of time.monotonic()
        self._trial: GraphPickler | None = None  # made where it is needed: it knows all that the stream knows

    def why_not(self, value: Any) -> str:
        trial, self._trial = self._trial or self._pickler.beside(), None
        trial.until = self.until
        try:
            trial.dump(value)
            why = trial.refusals[0].why if trial.refusals else ""
        except TookTooLong:
            raise
        except Exception as error:
            why = f"what cannot be copied ({error})."
        if not why:
            self._trial = trial  # what is refused once is known in the stream, and would pass the next time
        return why
