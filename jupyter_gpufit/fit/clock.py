"""The time of a trial run: what its operations would take on a device of known speed, and the waits for a link.

A trial run computes nothing. Who sees its operations spends here what each would take; a copy between device and host
takes its time on a link of its own for each direction, beside the operations, and who needs it waits for its end. So
the seconds of a plan come of the same run of the same code as its bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..devices.speeds import TYPICAL, DeviceSpeed


@dataclass
class StepClock:
    """Seconds since the trial run began."""

    speed: DeviceSpeed = TYPICAL
    now: float = 0.0
    waited: float = 0.0  # of them, for copies
    sent: int = 0  # bytes
    fetched: int = 0
    _out: float = 0.0  # until when the link to the host is taken
    _back: float = 0.0

    def compute(self, flops: int, nbytes: int) -> None:
        """An operation that reads and writes so many bytes."""
        self.now += max(flops / self.speed.flops, nbytes / self.speed.memory) + self.speed.operation

    def meet(self, nbytes: int) -> None:
        """Ranks put so many bytes of each together."""
        self.now += nbytes / self.speed.exchange + self.speed.meeting

    def out(self, nbytes: int) -> float:
        """When a copy to the host that begins now is done."""
        self.sent += nbytes
        self._out = max(self._out, self.now) + nbytes / self.speed.link
        return self._out

    def back(self, nbytes: int, after: Sequence[float] = ()) -> float:
        """When a copy to the device is done that begins once these are."""
        self.fetched += nbytes
        self._back = max(self._back, self.now, *after) + nbytes / self.speed.link
        return self._back

    def wait(self, until: float) -> None:
        if until > self.now:
            self.waited += until - self.now
            self.now = until


clock = StepClock()  # of the trial run that this process makes
