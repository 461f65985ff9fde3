"""What a job's numbers did, for a browser: read from its journal once, and then only what was added. For threads.

A client that draws asks every few seconds. It is sent no more points than its picture has pixels, so that nothing needs
to be kept there; what is kept here is bounded, and given up when others are asked for.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from ..jobs import journal
from ..jobs.curves import Curve, Curves, Point, thinned
from ..jobs.events import Metrics, ProgressMark, StateChange
from ..jobs.paths import JobPaths
from ..jobs.picked import picked, shown
from . import wire

DRAWN = frozenset({Metrics.kind, ProgressMark.kind, StateChange.kind})
MOST_JOBS = 16  # whose numbers are kept at once


@dataclass
class _Known:
    """One job's numbers, up to an entry of its journal."""

    guard: threading.Lock = field(default_factory=threading.Lock)
    after: int = 0
    curves: Curves = field(default_factory=Curves)

    def catch_up(self, paths: JobPaths) -> None:
        reader = journal.JournalReader(paths.journal, self.after, DRAWN)
        try:
            for entry in reader.read():
                self.curves.take(entry.event, entry.time)
        finally:
            self.after = reader.after
            reader.close()  # no file stays open between two questions: the job may be deleted


class CurveReader:
    """All that were asked for lately."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._known: OrderedDict[str, _Known] = OrderedDict()

    def read(self, paths: JobPaths, *, whole: bool) -> wire.WireCurves:
        """The numbers that its user wants drawn, over the whole run or of late, and its memory."""
        known = self._of(paths)
        with known.guard:
            known.catch_up(paths)
            curves = known.curves.metrics
            names = shown(curves, picked(paths))
            return wire.WireCurves(
                names=tuple(curves),
                curves=tuple(wire.WireCurve(name=name, points=_drawn(curves[name], whole)) for name in names),
                memory=_drawn(known.curves.memory, whole),
                breaks=tuple(known.curves.breaks),
                older=known.curves.older,
            )

    def _of(self, paths: JobPaths) -> _Known:
        with self._guard:
            known = self._known.setdefault(str(paths.root), _Known())
            self._known.move_to_end(str(paths.root))
            while len(self._known) > MOST_JOBS:
                self._known.popitem(last=False)
            return known


def _drawn(curve: Curve, whole: bool) -> tuple[Point, ...]:
    few = thinned(curve.points(whole=whole))
    return tuple((_short(at), None if value is None else _short(value)) for at, value in few)


def _short(value: float) -> float:
    """Without digits that no picture shows; of a time in seconds since 1970, milliseconds stay."""
    return float(f"{value:.13g}")
