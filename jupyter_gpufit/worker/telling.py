"""What a running job tells of itself once a second: how far it is, its loss and other metrics, what it takes."""

from __future__ import annotations

import threading
import time
import traceback
from dataclasses import dataclass, field
from typing import IO

from ..estimate.pace import Pace
from .live import Live, Memory, finite
from .loops import Course
from .messages import Metrics
from .metrics import Curve, Sampler


def _of_main_thread() -> Sampler:
    ident = threading.main_thread().ident
    assert ident is not None
    return Sampler(ident)


@dataclass
class Telling:
    """Looks at the main thread from the control thread; see metrics, loops and variables for how."""

    log: IO[str]  # where a defect of ours is told
    _sampler: Sampler = field(default_factory=_of_main_thread)
    _course: Course = field(default_factory=Course)
    _curve: Curve = field(default_factory=lambda: Curve(time.monotonic()))
    _told: dict[str, float | None] = field(default_factory=dict)
    _failed: bool = False

    def look(self, step: int, pace: Pace, memory: Memory) -> tuple[Live, Metrics | None]:
        """What there is to tell now, and what of it is worth a point of the curves."""
        try:
            return self._look(step, pace, memory)
        except Exception:  # the objects are the user's, and half made: no reason to end a training
            if not self._failed:
                traceback.print_exc(file=self.log)
                self._failed = True
            return Live(memory=memory), None

    def _look(self, step: int, pace: Pace, memory: Memory) -> tuple[Live, Metrics | None]:
        now, reading = time.monotonic(), self._sampler.look()
        values = {name: finite(value) for name, value in reading.values.items()}
        live = Live(
            progress=self._course.take(now, step, reading.nest, _rounded(pace.steps_per_second)),
            loss=self._sampler.loss(reading.values),
            metrics=tuple(values),
            mfu=_rounded(pace.mfu),
            memory=memory,
        )
        if not values or values == self._told or not self._curve.is_due(now):
            return live, None
        self._told = values
        return live, Metrics(step, values)


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
