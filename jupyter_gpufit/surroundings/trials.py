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
        self._begin()

    def _begin(self) -> None:
        self._trial = self._pickler.beside()

    def why_not(self, value: Any) -> str:
        self._trial.until = self.until
        try:
            self._trial.dump(value)
            why = self._trial.refusals[0].why if self._trial.refusals else ""
        except TookTooLong:
            self._begin()
            raise
        except Exception as error:
            why = f"what cannot be copied ({error})."
        if why:
            self._begin()  # what is refused once is known in the stream, and would pass the next time
        return why
