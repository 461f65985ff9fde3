"""When a waiting job's turn may come, or why that cannot be said: for a list that is renewed, and a line that stays."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ..units import format_duration

SOON = 1.0  # seconds that are no time
DAY = 20 * 3600.0  # seconds from which on a time of day alone may be misread


@dataclass(frozen=True)
class Foreseen:
    """When a waiting job may start, if nobody comes between."""

    earliest: float  # seconds since 1970
    latest: float | None  # None: nobody can say
    why_not: str = ""  # why there is no latest

    def sentence(self, now: float) -> str:
        """For somebody who reads it now: "starts in 5 min to 8 min"."""
        early = self.earliest - now
        if self.latest is None:
            return f"starts in {_long(early)} at the earliest: {self.why_not}" if early > SOON else self._unknown
        late = max(self.latest - now, SOON)
        return f"starts in {_long(early)} to {_long(late)}" if early > SOON else f"starts within {_long(late)}"

    def clock(self, now: float) -> str:
        """For a line that stays as it is: "starts between 14:05 and 14:12"."""
        if self.latest is None:
            early = self.earliest - now > SOON
            if not early:
                return self._unknown
            return f"starts at {on_the_clock(self.earliest, now)} at the earliest: {self.why_not}"
        first, last = on_the_clock(self.earliest, now), on_the_clock(self.latest, now)
        return f"starts at about {first}" if first == last else f"starts between {first} and {last}"

    @property
    def _unknown(self) -> str:
        return f"start not known: {self.why_not}"

    def is_news(self, before: Foreseen | None, now: float) -> bool:
        """Is it so far from what was said that it is to be said again?"""
        if before is None or (self.latest is None) != (before.latest is None) or self.why_not != before.why_not:
            return True
        last = self.latest if self.latest is not None else self.earliest
        last_before = before.latest if before.latest is not None else before.earliest
        most = max(60.0, 0.2 * (last - now))
        return abs(last - last_before) > most or abs(max(now, self.earliest) - max(now, before.earliest)) > most


def _long(seconds: float) -> str:
    """A length of time, as exactly as anybody can foresee one."""
    rounded = max(1.0, seconds)
    for step, above in ((3600.0, 36000.0), (300.0, 3600.0), (60.0, 600.0), (10.0, 60.0), (1.0, 0.0)):
        if rounded >= above:
            return format_duration(float(round(round(rounded / step) * step))).replace(".0 s", " s")
    raise AssertionError(seconds)


def on_the_clock(moment: float, now: float) -> str:
    return time.strftime("%H:%M" if abs(moment - now) < DAY else "%a %H:%M", time.localtime(moment))
