"""The calls that wait for their turn: a bounded number, first come, first served, and alike ones together; pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ..calls.protocol import Call

MOST_TOGETHER = 64  # calls: one packet tells of them all

Shape = tuple[tuple[int, ...], ...]


@dataclass(eq=False)
class WaitingCall:
    """One call and who waits for its answer."""

    call: Call
    client: int
    since: float  # seconds, of a clock that only runs
    rows: int = 1

    @property
    def shape(self) -> Shape:
        """What of its inputs must be alike for two calls to be put together: all but the rows."""
        return tuple(one.shape[1:] for one in self.call.inputs)


@dataclass
class WaitingCalls:
    """The queue of one model."""

    most: int  # calls
    _calls: deque[WaitingCall] = field(default_factory=deque)

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[WaitingCall]:
        return iter(self._calls)

    @property
    def rows(self) -> int:
        return sum(call.rows for call in self._calls)

    def add(self, call: WaitingCall) -> bool:
        """False: there are as many as may be."""
        if len(self._calls) >= self.most:
            return False
        self._calls.append(call)
        return True

    def next(self, rows: int, *, together: bool) -> list[WaitingCall]:
        """The first one, and, if they may go `together`, those like it that fit beside it into so many rows."""
        if not self._calls:
            return []
        first = self._calls.popleft()
        batch, left = [first], rows - first.rows
        if together:
            for call in [call for call in self._calls if call.shape == first.shape]:
                if call.rows <= left and len(batch) < MOST_TOGETHER:
                    batch.append(call)
                    left -= call.rows
            taken = set(map(id, batch))
            self._calls = deque(call for call in self._calls if id(call) not in taken)
        return batch

    def forget(self, unwanted: Callable[[WaitingCall], bool]) -> None:
        """Drop those whose caller is gone."""
        self._calls = deque(call for call in self._calls if not unwanted(call))

    def clear(self) -> list[WaitingCall]:
        """All of them, which then do not wait any more."""
        calls, self._calls = list(self._calls), deque()
        return calls
